"""The grammar of the world: verb forms, and the wording of a frame as one telegraphic line of
English."""

from __future__ import annotations

from draw import Draw
from meaning import Frame

# Forms of irregular verbs: present participle, past participle.
IRREGULAR = {
    "begin": ("beginning", "begun"),
    "build": ("building", "built"),
    "buy": ("buying", "bought"),
    "catch": ("catching", "caught"),
    "cut": ("cutting", "cut"),
    "draw": ("drawing", "drawn"),
    "drive": ("driving", "driven"),
    "eat": ("eating", "eaten"),
    "feed": ("feeding", "fed"),
    "find": ("finding", "found"),
    "forget": ("forgetting", "forgotten"),
    "give": ("giving", "given"),
    "grind": ("grinding", "ground"),
    "hide": ("hiding", "hidden"),
    "hold": ("holding", "held"),
    "lay": ("laying", "laid"),
    "lend": ("lending", "lent"),
    "lose": ("losing", "lost"),
    "overtake": ("overtaking", "overtaken"),
    "pay": ("paying", "paid"),
    "put": ("putting", "put"),
    "read": ("reading", "read"),
    "ride": ("riding", "ridden"),
    "saw": ("sawing", "sawn"),
    "sell": ("selling", "sold"),
    "send": ("sending", "sent"),
    "set": ("setting", "set"),
    "sew": ("sewing", "sewn"),
    "shoot": ("shooting", "shot"),
    "sing": ("singing", "sung"),
    "sink": ("sinking", "sunk"),
    "sow": ("sowing", "sown"),
    "steal": ("stealing", "stolen"),
    "teach": ("teaching", "taught"),
    "tear": ("tearing", "torn"),
    "throw": ("throwing", "thrown"),
    "tie": ("tying", "tied"),
    "wear": ("wearing", "worn"),
    "win": ("winning", "won"),
    "write": ("writing", "written"),
}
# Regular verbs that double their last letter before -ing and -ed.
DOUBLING = (
    *("chop", "drag", "drop", "grab", "hum", "plan", "scrub", "shred"),
    *("spot", "stir", "stop", "swap", "trim", "unplug", "wrap"),
)


def forms(verb: str) -> tuple[str, str, str]:
    """Return (third person, present participle, past participle) of a verb, with or without a
    particle ("look at")."""
    base, _, particle = verb.partition(" ")
    tail = f" {particle}" if particle else ""
    consonant_y = base.endswith("y") and base[-2] not in "aeiou"
    if consonant_y:
        third = base[:-1] + "ies"
    else:
        third = base + ("es" if base.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")
    if base in IRREGULAR:
        present, past = IRREGULAR[base]
    elif base in DOUBLING:
        present, past = f"{base}{base[-1]}ing", f"{base}{base[-1]}ed"
    elif base.endswith("ee"):
        present, past = f"{base}ing", f"{base}d"
    elif base.endswith("e"):
        present, past = f"{base[:-1]}ing", f"{base}d"
    else:
        present, past = f"{base}ing", (f"{base[:-1]}ied" if consonant_y else f"{base}ed")
    return third + tail, present + tail, past + tail


def noun_phrase(words: tuple[str, ...], trait: tuple[str, ...] | None, draw: Draw) -> str:
    """Return a noun with its adjective; a quarter have an article, as in headlines and captions."""
    phrase = draw.pick(words)
    if trait is not None:
        phrase = f"{draw.pick(trait)} {phrase}"
    return f"the {phrase}" if draw.chance(0.25) else phrase


def wording(frame: Frame, draw: Draw) -> str:
    """Return one line that expresses `frame`: active, progressive or passive, with one word per
    concept."""
    who = noun_phrase(frame.who.words, frame.who_trait, draw)
    whom = noun_phrase(frame.whom.words, frame.whom_trait, draw)
    third, present, past = forms(draw.pick(frame.what.words))
    before = ("never " if frame.negated else "") + (f"{draw.pick(frame.how)} " if frame.how else "")
    voice = draw.random()
    if voice < 0.50:
        line = f"{who} {before}{third} {whom}"
    elif voice < 0.62:
        line = f"{who} is {before}{present} {whom}"
    else:
        line = f"{whom} is {before}{past} by {who}"
    ends = [draw.pick(frame.where)] if frame.where else []
    if frame.when:
        when = draw.pick(frame.when)
        if " " in when and draw.chance(0.25):
            line = f"{when} {line}"
        else:
            ends.insert(0 if draw.chance(0.5) else len(ends), when)
    return " ".join([line, *ends])
