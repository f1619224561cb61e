"""Checks of samples in the HTML page, for ci/check-html: every number is computed again from the JSON report."""

import itertools
import json


def report_in(page):
    """The JSON report that a page contains."""
    _, rest = page.read_text().split('<script type="application/json" id="snapshot-0">', 1)
    return json.loads(rest.split("</script>", 1)[0])


def frames_of(samples, stack):
    """The functions of a stack as pairs of a depth and an index in frames, the innermost first."""
    locations = (samples["locations"][at] for at in stack["locations"])
    return [(depth, frame) for depth, location in enumerate(locations) for frame in location["frames"] or [None]]


def own_frame(samples, frames, mark):
    """Where the marked function is: innermost call, outermost frame there. Marks of these pages have no generics."""
    own = [at for at, (_, frame) in enumerate(frames) if frame is not None and named(samples, frame) == mark["path"]]
    return max((at for at in own if frames[at][0] == frames[own[0]][0]), default=None)


def named(samples, frame):
    return samples["frames"][frame]["function"]


def share(part, every, samples):
    """As `perfmark::text::share_of_samples` writes it."""
    taken = samples["unattributed"] + sum(path["samples"] for path in samples["paths"])
    near = (part + 1) / (max(every, 1) + 2)
    error = (near * (1 - near) / (max(every, 1) + 2)) ** 0.5 * 100
    digits = 1 if error < 0.95 else 0
    flag = "≈" if samples["lost"] * 20 > samples["lost"] + taken else ""
    return f"{flag}{part / max(every, 1) * 100:.{digits}f} % ± {error:.{digits}f}"


def count_of_probe(samples, frames, own):
    """How many of the innermost frames are perfmark's own code; 0 if the program's was executed."""
    inside = [None if frame is None else samples["frames"][frame] for _, frame in frames[:own]]
    is_standard = lambda frame: frame is not None and (frame["file"] or "").startswith("/rustc/")
    is_perfmarks = lambda frame: frame is not None and frame["function"].startswith("perfmark")
    executed = next((at for at, frame in enumerate(inside) if frame is not None and not is_standard(frame)), None)
    if executed is None or not is_perfmarks(inside[executed]):
        return 0
    known = itertools.takewhile(lambda frame: is_perfmarks(frame) or is_standard(frame), inside[executed:])
    return executed + max(at for at, frame in enumerate(known, 1) if is_perfmarks(frame))


def annotated(samples, index, mark):
    """The lines of a mark: samples in the line and in callees, and those of the functions called there."""
    lines, every = {}, 0
    for path in samples["paths"]:
        if path["marks"][-1:] != [index]:
            continue
        for stack in path["stacks"]:
            frames, count = frames_of(samples, stack), stack["samples"]
            own = own_frame(samples, frames, mark)
            if count_of_probe(samples, frames, own) > 0:
                continue
            every += count
            if own is None:
                continue
            frame = samples["frames"][frames[own][1]]
            line = lines.setdefault((frame["file"], frame["line"]), {"counts": [0, 0], "callees": {}})
            is_callee = frames[own][0] > 0
            line["counts"][is_callee] += count
            if own > 0 and frames[own - 1][1] is not None:
                depth, callee = frames[own - 1]
                counts = line["callees"].setdefault((callee, depth == frames[own][0]), [0, 0])
                counts[is_callee] += count
    return every, lines


SOURCE = """const text = (row) => [...row.children].map((cell) => cell.textContent);
    return arguments[0].map((index) => {
        const section = make('div', {}, ...sourceSection(marks[index]));
        for (const closed of section.querySelectorAll('.source [aria-expanded=false]')) closed.click();
        return [...section.querySelectorAll('.source tr:is(.line, .callee)')].map((row) => ({
            kind: row.className, cells: text(row), isTop: row.lastChild.style.paddingLeft === '14px',
            name: row.querySelector('.code code')?.textContent,
            isInlined: row.querySelector('.inlined') !== null })); })"""


def check_source(browser, folder):
    """Checks the shares and texts of every mark's lines against the samples in the JSON report."""
    cases = [line.split("\t") for line in (folder / "shares.tsv").read_text().splitlines()]
    browser.open(folder / "sampled-thirty.html")
    counts = [[int(part), int(every)] for part, every, _ in cases]
    shares = browser.run("return arguments[0].map(([part, all]) => shareOfSamples(part, all, false))", counts)
    assert shares == [text for _, _, text in cases], list(zip(cases, shares))
    count = texts = callees = 0
    for page in ("sampled", "sampled-probe", "sampled-one", "sampled-thirty", "sampled-300", "sampled-hostile"):
        browser.open(folder / f"{page}.html")
        report = report_in(folder / f"{page}.html")
        source = {
            (of["file"], str(line)): text for of in report["sources"] for line, text in enumerate(of["lines"], of["line"])
        }
        for at, samples in enumerate(report["samples"]):
            browser.run("chooseSampling(arguments[0], 'page')", at)
            functions = browser.run("return words.samples[arguments[0]].functions", at)
            checked = list(enumerate(report["marks"]))[:40]
            for (index, mark), rows in zip(checked, browser.run(SOURCE, [index for index, _ in checked])):
                every, lines = annotated(samples, index, mark)
                shown = lambda counts: [share(part, every, samples) if part else "" for part in counts]
                expected = sorted([str(line), *shown(one["counts"])] for (_, line), one in lines.items())
                sampled = [row for row in rows if "sampled" in row["kind"]]
                assert sorted([row["cells"][2], *row["cells"][:2]] for row in sampled) == expected, (page, mark, rows)
                hot = [row for row in sampled if "hot" in row["kind"]]
                counts = sorted((sum(one["counts"]) for one in lines.values()), reverse=True)
                assert len(hot) == sum(count >= 5 for count in counts[:3]), (page, mark, hot)
                (file, _), _ = next(iter(lines.items()), (("", 0), 0))
                for row in rows:
                    text = source.get((file, row["cells"][2]))
                    if "line" in row["kind"].split() and text is not None:
                        assert row["cells"][3] == text.lstrip(), (page, row)
                        texts += 1
                direct = [row for row in rows if row["isTop"] and row["name"] in functions]
                tops = sorted([row["name"], row["isInlined"], *row["cells"][:2]] for row in direct)
                called = {}
                for line, one in lines.items():
                    for (callee, is_inlined), more in one["callees"].items():
                        sums = called.setdefault((line, functions[callee], is_inlined), [0, 0])
                        sums[:] = [one + other for one, other in zip(sums, more)]
                wanted = sorted([name, is_inlined, *shown(sums)] for (_, name, is_inlined), sums in called.items())
                assert tops == wanted, (page, mark, tops, wanted)
                count, callees = count + len(expected), callees + len(tops)
        title = browser.run("return document.title").replace("document.title='broken'", "")
        assert browser.run("return document.images.length") == 0 and "broken" not in title, page
    assert texts > 100, texts
    browser.open(folder / "sampled-probe.html")
    [rows] = browser.run("return [make('div', {}, ...sourceSection(marks[0])).textContent]")
    assert "Without 100 samples in perfmark's own code at entry and exit, 31 % ± 3." in rows, rows
    browser.open(folder / "sampled-unnamed.html")
    browser.run("showMark(view.rows[0].mark)")
    assert "libc.so.6+0x98b40" in browser.run("return document.querySelector('.of-source').textContent")
    assert "perfmark report --symbols" in browser.run("return document.getElementById('samples').textContent")
    browser.open(folder / "thirty.html")
    browser.run("showMark(view.rows[0].mark)")
    is_without = "return byId('samples').hidden && byId('flame-kinds').hidden && !document.querySelector('.of-source')"
    assert browser.run(is_without), "a program that was not sampled"
    for page in ("sampled-one", "sampled-thirty", "sampled-unnamed"):
        browser.open(folder / f"{page}.html")
        browser.run("showMark(view.rows[0].mark)")
        for width in (500, 760, 1280, 1600):
            browser.size(width, 900)
            is_inside = "return ['detail', 'samples'].every((id) => byId(id).scrollWidth <= byId(id).clientWidth)"
            assert browser.run(is_inside), (width, page)
    browser.size(1440, 1000)
    print(f"{count} sampled lines, {callees} functions called there and {texts} lines of text match the JSON report")


def sampled_tree(report, samples, labels, functions):
    """Samples under each path of marks and functions, up to the first function without a name."""
    tree = {}
    for path in samples["paths"]:
        marks = [("mark", labels[mark]) for mark in path["marks"]] or [("mark", "outside marks")]
        if path["thread"] is not None:
            marks.append(("mark", f"thread {path['thread']}"))
        for stack in path["stacks"]:
            frames = frames_of(samples, stack)
            mark = report["marks"][path["marks"][-1]] if path["marks"] else None
            own = own_frame(samples, frames, mark) if mark else None
            parts = list(marks)
            of_perfmark = count_of_probe(samples, frames, own)
            if own is None:
                own = sum(depth == 0 or not mark for depth, _ in frames)
            for at in range(own - 1, of_perfmark - 1, -1):
                depth, frame = frames[at]
                if frame is None:
                    break
                is_inlined = at + 1 < len(frames) and frames[at + 1][0] == depth
                parts.append(("inlined" if is_inlined else "function", functions[frame]))
            else:
                if of_perfmark > 0:
                    parts.append(("function", "perfmark's own code at entry and exit"))
            for end in range(1, len(parts) + 1):
                key = tuple(parts[:end])
                tree[key] = tree.get(key, 0) + stack["samples"]
    return tree


def check_flame_of_samples(browser, folder):
    """Checks the tree and the widths of the frames against the samples in the JSON report."""
    nodes = """changeFlame('samples');
        const kind = ({ callee }) =>
            (!callee ? 'mark' : !callee.code.isNamed ? 'unnamed' : callee.isInlined ? 'inlined' : 'function');
        return flame.tree.nodes.map((node) => [pathTo(node).slice(1).map((at) => [kind(at), at.label]), node.width])"""
    drawn = """const all = byId('flame').clientWidth;
        return [...flame.frames.values()].map(({ node, drawn }) =>
            [drawn.getBoundingClientRect().width + 1, node.width / flame.tree.root.width * all])"""
    count = 0
    for page in ("sampled", "sampled-probe", "sampled-one", "sampled-thirty", "sampled-300", "sampled-unnamed"):
        browser.open(folder / f"{page}.html")
        report = report_in(folder / f"{page}.html")
        labels = browser.run("return words.labels")
        for at, samples in enumerate(report["samples"]):
            browser.run("chooseSampling(arguments[0], 'page')", at)
            functions = browser.run("return words.samples[arguments[0]].functions", at)
            tree = sampled_tree(report, samples, labels, functions)
            tree[("mark", "unknown"),] = samples["unattributed"]
            shown = {}
            for path, width in browser.run(nodes):
                if all(kind != "unnamed" for kind, _ in path):
                    key = tuple(map(tuple, path))
                    shown[key] = shown.get(key, 0) + width
            assert shown == tree, (page, [key for key in {**shown, **tree} if shown.get(key) != tree.get(key)][:3])
            taken = samples["unattributed"] + sum(path["samples"] for path in samples["paths"])
            assert browser.run("return flame.tree.root.width") == taken
            for width, expected in browser.run(drawn):
                assert abs(width - expected) < 1, (page, width, expected)
            outside = sum(path["samples"] for path in samples["paths"] if not path["marks"])
            text = browser.run("return document.querySelector('.outside').textContent")
            whole = "the samples shown" if samples["removed"] else "all samples"
            assert f"Outside marks: {share(outside, taken, samples)} of {whole}" in text, text
            assert browser.run("return flame.tree.textOf(flame.tree.root)").startswith(f"{whole}: "), whole
            names = "return [...document.querySelectorAll('#samples .functions code')].map((name) => name.textContent)"
            rows = browser.run(names)
            assert page != "sampled" or rows == ["Words::read", "__memmove_avx_unaligned"], rows
            count += len(shown)
    browser.open(folder / "sampled-thirty.html")
    browser.run("changeFlame('samples')")
    frame = browser.run(
        """const isInside = ({ node }) => node.callee && node.above.mark?.name === 'highlight';
        return [...flame.frames.values()].find(isInside).node.index"""
    )
    browser.click(f".frame[data-node='{frame}']")
    zoomed = "return flame.frames.get(flame.zoomed.index).drawn.clientWidth - byId('flame').clientWidth"
    assert browser.run(zoomed) >= -2
    browser.click("#open-zoomed")
    assert browser.run("return openMark.name") == "highlight"
    browser.press("\ue00c")  # Escape
    for select, option in (("#flame-sampling", "cache-misses"), ("#samples", "cpu-clock")):
        browser.run(
            """const select = document.querySelector(`${arguments[0]} select`);
            select.selectedIndex = [...select.options].findIndex((option) => option.text.startsWith(arguments[1]));
            select.dispatchEvent(new Event('change'))""",
            select,
            option,
        )
        assert option in browser.run("return document.querySelector('#samples small').textContent")
        assert option in browser.run("return flame.tree.textOf(flame.tree.root)")
    print(f"{count} frames of sampled marks and functions match the JSON report")
