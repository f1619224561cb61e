"""Checks that the report of every marked crate must pass."""

EXPECTED_NOTE = "the kernel does not trust this machine's tick counter"


def check(report, prefix, expected):
    """Checks the report of a process that ended, and returns its marks. `expected` are their (file, line, name)."""
    marks = [mark for mark in report["marks"] if mark["file"].startswith(prefix)]
    listed = sorted((mark["file"].removeprefix(prefix), mark["line"], mark["name"]) for mark in marks)
    expected = sorted(expected)
    assert listed == expected, f"missing: {difference(expected, listed)}; unexpected: {difference(listed, expected)}"
    notes = [note for note in report["notes"] if not note.startswith(EXPECTED_NOTE)]
    assert not notes, notes
    for mark in report["marks"]:
        check_mark(mark)
    return marks


def check_mark(mark):
    assert mark["in_flight"] == mark["interrupted"] == mark["skipped"] == mark["cancelled"] == 0, mark
    assert (mark["calls"] > 0) == bool(mark["values"]), mark
    for values in mark["values"].values():
        assert values["measured"] + values["unmeasured"] + mark["unwound"] == mark["calls"], mark
        assert sum(calls for _, _, calls in values["buckets"]) == values["measured"], mark
        if not values["imputed"] and values["min"] and values["min"] > 0:
            assert values["total"] <= values["sum"], mark
        if values["measured"]:
            quantiles = [values[name] for name in ("min", "p50", "p90", "p99", "p999", "max")]
            # Quantiles are rounded to nanoseconds. They are never below 0, but a mean can be.
            assert quantiles == sorted(quantiles) and values["mean"] <= values["max"] + 1, mark


def times(report, root):
    """The sum of all marks' self times, and the total of the root mark, whose call contains all others."""
    [total] = [mark["values"]["time"]["total"] for mark in report["marks"] if mark["name"] == root]
    return sum(mark["values"]["time"]["self"] for mark in report["marks"] if mark["values"]), total


def difference(one, other):
    return [entry for entry in one if entry not in other][:5]
