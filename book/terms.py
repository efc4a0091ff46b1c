"""The terms of the book: what its chapters set in italics, with the place where each is defined.

The rule is one for writers too: italics in a chapter's prose mark a term where it is defined. What is in italics for
another reason, a word to be stressed or what a screen says, stands in docs/web/emphasis.txt.
"""

import re
from collections import defaultdict
from dataclasses import dataclass

from book.chapters import ROOT, Chapter

EMPHASIS = ROOT / "docs" / "web" / "emphasis.txt"
ITALICS = re.compile(r"(?<![*\w\\])\*(?![*\s])([^*]+?)(?<![\s])\*(?![*\w])")
NO_PROSE = re.compile(r"(?s:```.*?```)|`[^`]*`|^\|.*$|^#.*$|(?s:\*\*.+?\*\*)", flags=re.MULTILINE)
SHORT = 9  # words: a sentence with fewer is quoted together with a neighbour


@dataclass(frozen=True)
class Term:
    """One term. name: as an index has it. chapter, cell: where it is defined, by place. quote: what is said there."""

    name: str
    chapter: Chapter
    cell: int
    start: int  # of its italics in the cell's source
    quote: str

    @property
    def anchor(self):
        """The name of its place in the page of its chapter."""
        return f"term-{self.chapter.number}-" + re.sub(r"\W+", "-", self.name.lower()).strip("-")


def all_terms(chapters):
    """{name: the Terms called so, one for each chapter that defines it}, in alphabetical order."""
    stressed = set(EMPHASIS.read_text(encoding="utf-8").splitlines())
    found = defaultdict(dict)
    for chapter in chapters:
        for term in terms_of(chapter):
            if term.name not in stressed:
                found[term.name].setdefault(chapter.name, term)
    return {name: list(found[name].values()) for name in sorted(found, key=str.lower)}


def terms_of(chapter):
    """The Terms of a chapter in the order they stand, less the opening page's line of minutes and the sources."""
    for place, cell in enumerate(chapter.read_notebook().cells):
        if cell.cell_type != "markdown" or cell.source.startswith("## Sources"):
            continue
        prose = NO_PROSE.sub(lambda match: re.sub(r"[^\n]", "-", match[0]), cell.source)
        for italics in ITALICS.finditer(prose):
            start, end = _paragraph(prose, italics.start())
            if prose[start:end].strip() != italics[0]:  # a paragraph in italics is an aside
                quote = _quote(cell.source[start:end], italics.start() - start)
                yield Term(_name(italics[1]), chapter, place, italics.start(), quote)


def mark(source, terms):
    """A cell's source with a place to link to at each of its terms."""
    for term in sorted(terms, key=lambda term: term.start, reverse=True):
        italics = ITALICS.match(source, term.start)
        source = f"{source[: term.start]}[{italics[0]}]{{#{term.anchor}}}{source[italics.end() :]}"
    return source


def _name(italics):
    """`Checkpointing` -> `checkpointing`, while `Amdahl's law` and `TF32` stay as they are."""
    name = " ".join(italics.split()).rstrip(".,:")
    stays = "'s" in name or any(letter.isupper() for letter in name[1:])
    return name if stays else name[0].lower() + name[1:]


def _paragraph(prose, place):
    """(start, end) of the paragraph, or the item of a list, around a place."""
    breaks = [match.end() for match in re.finditer(r"\n\s*\n|\n(?=- |\d+\. )", prose)]
    starts = [0, *breaks]
    start = max(begin for begin in starts if begin <= place)
    return start, min([begin for begin in starts if begin > place], default=len(prose))


def _quote(paragraph, place):
    """The sentence around a place; where it is short, with the one that it ends or the one that it begins."""
    prefix = re.match(r"(- |\d+\. )?\s*(\*\*\[GPU\]\*\* )?", paragraph).end()
    ends = [match.end() for match in re.finditer(r"[.?!]\*{0,2}\s+(?=[A-Z0-9*`(])", paragraph)]
    before = [prefix] + [end for end in ends if prefix < end <= place]
    after = [end for end in ends if end > place] + [len(paragraph)]
    start, end = before[-1], after[0]
    if len(paragraph[start:end].split()) < SHORT:
        if re.fullmatch(r"\*[^*]+\*\W*", paragraph[place:end]):
            start = before[-2:][0]
        else:
            end = after[:2][-1]
    return " ".join(paragraph[start:end].split())
