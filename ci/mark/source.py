"""Finds the functions of a crate in its source and puts the attribute before them.

It parses only as much of Rust as that requires: tokens, their brackets, the start of an item, and `#[cfg(…)]`. It does
not see functions that a macro generates.
"""

import dataclasses
import pathlib
import re
import subprocess

TOKEN = re.compile(
    r"""
    (?P<blank> \s+ | //[^\n]* )
  | (?P<literal> [bc]?r(?P<fence>\#*)" .*? "(?P=fence) | [bc]?"(?:\\.|[^"\\])*"
      | b?'(?:\\u\{[^}]*\}|\\x..|\\.|[^'\\\n])' | \d[\w]*(?:\.\d[\w]*)? )
  | (?P<lifetime> '\w+ )
  | (?P<word> (?:r\#)?[^\W\d]\w* )
  | (?P<punct> . )
    """,
    re.VERBOSE | re.DOTALL,
)
CLOSING = {"(": ")", "[": "]", "{": "}"}
KEYWORDS = {"as", "break", "else", "if", "in", "match", "return", "while", "yield"}
QUALIFIERS = {"pub", "default", "const", "async", "unsafe", "safe", "extern"}


@dataclasses.dataclass
class Token:
    kind: str
    text: str
    start: int
    inner: list | None = None
    """The tokens in a bracket."""


@dataclasses.dataclass
class Function:
    name: str
    file: str
    start: int
    """The offset of its item, after its attributes."""
    line: int
    last_line: int
    """The line of the last token in its body."""
    cfg: list
    """The conditions under which it is compiled."""
    unmarkable: str | None
    """The reason why it gets no mark."""
    container: int | None
    """The start of the outermost `impl`, `trait` or inline `mod` around it."""
    is_local: bool
    """Whether it is in the body of another function."""


@dataclasses.dataclass
class Container:
    file: str
    start: int


def block_comment(text, at):
    """The end of a comment, which may contain other comments."""
    depth = 0
    for delimiter in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if delimiter.group() == "/*" else -1
        if depth == 0:
            return delimiter.end()
    raise ValueError("unterminated comment")


def tokens(text):
    at, flat = 0, []
    while at < len(text):
        if text.startswith("/*", at):
            at = block_comment(text, at)
            continue
        found = TOKEN.match(text, at)
        at = found.end()
        if found.lastgroup != "blank":
            kind = next(kind for kind in ("literal", "lifetime", "word", "punct") if found[kind] is not None)
            flat.append(Token(kind, found.group(), found.start()))
    return nested(iter(flat), None)


def nested(flat, closing):
    level = []
    for token in flat:
        if token.kind == "punct" and token.text == closing:
            return level
        if token.kind == "punct" and token.text in CLOSING:
            token.inner = nested(flat, CLOSING[token.text])
        level.append(token)
    if closing is not None:
        raise ValueError(f"missing {closing}")
    return level


def is_punct(level, at, text):
    return 0 <= at < len(level) and level[at].kind == "punct" and level[at].text == text


def is_word(level, at, text=None):
    return 0 <= at < len(level) and level[at].kind == "word" and text in (None, level[at].text)


class Crate:
    """All functions and containers in a crate's first file and its modules."""

    def __init__(self, root, first="src/lib.rs"):
        self.root = pathlib.Path(root)
        self.functions, self.containers, self.texts = [], [], {}
        self.in_macros = 0
        self.file(first, [])

    def file(self, name, cfg):
        text = (self.root / name).read_text()
        self.texts[name] = text
        Scan(self, name, text).level(tokens(text), cfg, None, False)

    def module(self, file, name, cfg):
        """Reads the file of `mod name;`."""
        path = pathlib.PurePath(file)
        folder = path.parent if path.name in ("lib.rs", "mod.rs") else path.with_suffix("")
        candidates = [folder / f"{name}.rs", folder / name / "mod.rs"]
        [found] = [str(path) for path in candidates if (self.root / path).exists()]
        self.file(found, cfg)

    def lines(self):
        """The number of lines in files that contain functions."""
        return sum(self.texts[name].count("\n") for name in {function.file for function in self.functions})

    def put(self, attribute, locations):
        """Writes the files with the attribute at these locations: (file, start)."""
        for name, text in self.texts.items():
            for start in sorted({start for file, start in locations if file == name}, reverse=True):
                text = text[:start] + attribute + text[start:]
            (self.root / name).write_text(text)


class Scan:
    """One file's functions, in the order of the source."""

    def __init__(self, crate, file, text):
        self.crate, self.file, self.text = crate, file, text

    def level(self, level, cfg, container, is_local):
        """Scans the tokens between two brackets: items, or the statements of a body."""
        at, own = 0, []
        while at < len(level):
            token = level[at]
            if is_punct(level, at, "#") and (is_punct(level, at + 1, "[") or is_punct(level, at + 2, "[")):
                is_inner = is_punct(level, at + 1, "!")
                condition = self.condition(level[at + 1 + is_inner].inner)
                (cfg if is_inner else own).extend(condition)
                at += 2 + is_inner
            elif self.is_macro(level, at):
                at = next(i for i in range(at, len(level)) if level[i].inner is not None)
                self.crate.in_macros += count(level[at].inner)
                at, own = at + 1, []
            elif token.text == "fn" and is_word(level, at + 1):
                at = self.function(level, at, cfg + own, container, is_local)
                own = []
            elif token.text == "mod" and is_word(level, at + 1) and is_punct(level, at + 2, ";"):
                self.crate.module(self.file, level[at + 1].text, cfg + own)
                at, own = at + 3, []
            elif token.kind == "word" and token.text in ("impl", "trait", "mod"):
                start = beginning(level, at)
                if container is None and not is_local:
                    self.crate.containers.append(Container(self.file, start))
                at = end(level, at)
                outermost = start if container is None and not is_local else container
                self.level(level[at].inner, cfg + own, outermost, is_local)
                at, own = at + 1, []
            else:
                if token.inner is not None:
                    self.level(token.inner, cfg + own, container, is_local)
                if token.text in (";", ",", "{"):
                    own = []
                at += 1

    def is_macro(self, level, at):
        """Whether `name! { … }` or `macro_rules! name { … }` starts here."""
        if not is_word(level, at) or level[at].text in KEYWORDS or not is_punct(level, at + 1, "!"):
            return False
        named = at + 2 + is_word(level, at + 2)
        return named < len(level) and level[named].inner is not None

    def condition(self, inner):
        """The conditions of an attribute."""
        if is_word(inner, 0, "cfg"):
            return [inner[1].inner]
        if is_word(inner, 0, "test") and len(inner) == 1:
            return [[Token("word", "test", 0)]]
        return []

    def function(self, level, at, cfg, container, is_local):
        name, start, body = level[at + 1].text, beginning(level, at), end(level, at)
        if level[body].inner is not None:
            qualifiers = {token.text for token in level[:at] if token.start >= start}
            unmarkable = "const" if "const" in qualifiers else None
            lines = [self.text.count("\n", 0, at) + 1 for at in (start, last(level[body]))]
            function = Function(name.removeprefix("r#"), self.file, start, *lines, cfg, unmarkable, container, is_local)
            self.crate.functions.append(function)
            self.level(level[body].inner, list(cfg), container, True)
        return body + 1


def beginning(level, at):
    """The start of the item whose `fn`, `impl`, `trait` or `mod` is at this index."""
    while at > 0:
        before = level[at - 1]
        if before.text == "(" and is_word(level, at - 2, "pub"):
            at -= 2
        elif before.text in QUALIFIERS:
            at -= 1
        elif before.kind == "literal" and is_word(level, at - 2, "extern"):
            at -= 1
        else:
            break
    return level[at].start


def end(level, at):
    """The index of the item's body, or of the semicolon instead of one."""
    for i in range(at, len(level)):
        # Punctuation follows braces in types (`Array<{ N }>`).
        is_in_type = is_punct(level, i + 1, ">") or is_punct(level, i + 1, ",")
        if is_punct(level, i, ";") or is_punct(level, i, "{") and not is_in_type:
            return i
    raise ValueError("unterminated item")


def last(token):
    """The start of the last token in a bracket."""
    while token.inner:
        token = token.inner[-1]
    return token.start


def count(level):
    """The number of functions with a body in a macro."""
    found = 0
    for at, token in enumerate(level):
        if token.inner is not None:
            found += count(token.inner)
        elif token.text == "fn" and (is_word(level, at + 1) or is_punct(level, at + 1, "$")):
            found += any(is_punct(level, i, "{") for i in range(at, len(level)))
    return found


class Configuration:
    """Evaluates `#[cfg(…)]` as rustc does."""

    def __init__(self, features, is_test, is_release):
        flags = ["-O"] if is_release else []
        command = ["rustc", "--print", "cfg", *flags]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        self.known = set(output.split()) | {f'feature="{name}"' for name in features} | ({"test"} if is_test else set())

    def has(self, function):
        return all(self.holds(condition) for condition in function.cfg)

    def holds(self, words):
        name = words[0].text
        if is_punct(words, 1, "="):
            return f"{name}={words[2].text}" in self.known
        if not is_punct(words, 1, "("):
            return name in self.known
        each = [self.holds(part) for part in parts(words[1].inner)]
        return {"all": all, "any": any, "not": lambda each: not each[0]}[name](each)


def parts(words):
    """The parts between commas."""
    part = []
    for word in words:
        if word.kind == "punct" and word.text == ",":
            yield part
            part = []
        else:
            part.append(word)
    if part:
        yield part
