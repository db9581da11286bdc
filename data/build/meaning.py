"""The events of the world: frames (who does what to whom, where, when, how), and the similarity of
two frames.

A world has *preferences*, fixed by its seed: each agent favours a few actions, each action a few
objects, places and manners. Words of one concept share them, so a language model can learn that
they mean the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from draw import Draw, digest
from lexicon import (
    ADJECTIVES,
    ANYBODY,
    DOMAINS,
    MANNERS,
    SHARED_ACTIONS,
    TIMES,
    Concept,
    Domain,
    concepts,
)

PEAK = 0.45  # a preference falls by this factor from one favourite to the next
FLAT = 0.12  # how often a choice ignores the preferences


@dataclass(frozen=True)
class Entity:
    """A person or thing: its domain ("" = any), its class, its interchangeable names."""

    domain: str
    kind: str
    words: Concept


@dataclass(frozen=True)
class Action:
    """An action: its domain ("" = any), its interchangeable verbs, the classes it applies to."""

    domain: str
    words: Concept
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Frame:
    """The meaning of one sentence. None: not stated."""

    domain: str
    who: Entity
    what: Action
    whom: Entity
    where: Concept | None
    when: Concept | None
    how: Concept | None
    who_trait: Concept | None
    whom_trait: Concept | None
    negated: bool


WEIGHTS = {
    "what": 0.30,
    "whom": 0.24,
    "who": 0.22,
    "where": 0.10,
    "when": 0.06,
    "how": 0.06,
    "who_trait": 0.05,
    "whom_trait": 0.05,
}
SAID_ONCE = 0.4  # similarity of a detail that only one of the two sentences gives
OTHER_POLARITY = 0.6  # factor when one sentence denies what the other says

BY_NAME: dict[str, Domain] = {domain.name: domain for domain in DOMAINS}
ACTIONS = {
    domain.name: tuple(Action(domain.name, verbs, kinds) for verbs, kinds in domain.actions)
    for domain in DOMAINS
}
SHARED = tuple(
    Action("", concepts(part.split(":")[0])[0], ("people",)) for part in SHARED_ACTIONS.split(",")
)
AGENTS = {
    domain.name: tuple(Entity(domain.name, "people", agent) for agent in domain.agents)
    for domain in DOMAINS
}
ANYONE = tuple(Entity("", "people", agent) for agent in ANYBODY)


def objects(domain: str, kinds: Sequence[str]) -> tuple[Entity, ...]:
    """Return all entities of `domain` that belong to one of the classes `kinds`."""
    found: list[Entity] = []
    for kind in kinds:
        if kind == "people":
            found += AGENTS[domain] + ANYONE
        else:
            found += [Entity(domain, kind, words) for words in BY_NAME[domain].objects[kind]]
    return tuple(found)


def traits(entity: Entity) -> tuple[Concept, ...]:
    """Return the adjectives an entity may have."""
    kind = "person" if entity.kind == "people" else BY_NAME[entity.domain].adjectives[entity.kind]
    return ADJECTIVES[kind]


@cache
def preference(seed: int, key: str, count: int) -> tuple[float, ...]:
    """Return weights over `count` partners of `key`: geometrically decreasing in an order fixed by
    the world's seed."""
    order = sorted(range(count), key=lambda index: digest("preference", seed, key, index))
    weights, weight = [0.0] * count, 1.0
    for index in order:
        weights[index] = weight
        weight *= PEAK
    return tuple(weights)


class World:
    """The frames of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def favourite(self, key: str, items: Sequence, draw: Draw):
        """Return one of `items`, mostly by the preferences of `key`."""
        if draw.chance(FLAT):
            return draw.pick(items)
        return draw.weighted(items, preference(self.seed, key, len(items)))

    def agent(self, domain: str, draw: Draw) -> Entity:
        return draw.pick(AGENTS[domain]) if draw.chance(0.8) else draw.pick(ANYONE)

    def target(self, domain: str, action: Action, draw: Draw) -> Entity:
        key = f"whom {domain} {action.words[0]} {action.kinds[0]}"
        return self.favourite(key, objects(domain, action.kinds), draw)

    def detail(self, slot: str, frame: Frame, draw: Draw) -> Concept:
        """Return a value for one of the optional slots that suits the rest of the frame."""
        if slot == "where":
            return self.favourite(
                f"where {frame.what.words[0]}", BY_NAME[frame.domain].places, draw
            )
        if slot == "when":
            return draw.pick(TIMES)
        if slot == "how":
            return self.favourite(f"how {frame.what.words[0]}", MANNERS, draw)
        entity = frame.who if slot == "who_trait" else frame.whom
        return self.favourite(f"trait {entity.words[0]}", traits(entity), draw)

    def frame(self, draw: Draw, domain: str | None = None) -> Frame:
        """Return a new frame, in `domain` or anywhere."""
        place = domain or draw.pick(DOMAINS).name
        who = self.agent(place, draw)
        pool = SHARED if draw.chance(0.1) else ACTIONS[place]
        what = self.favourite(f"what {place} {who.words[0]} {len(pool)}", pool, draw)
        whom = self.target(place, what, draw)
        while whom == who:
            whom = self.target(place, what, draw)
        frame = Frame(place, who, what, whom, None, None, None, None, None, draw.chance(0.08))
        for slot, probability in (
            ("where", 0.5),
            ("when", 0.35),
            ("how", 0.25),
            ("who_trait", 0.3),
            ("whom_trait", 0.3),
        ):
            if draw.chance(probability) and not (slot == "how" and frame.negated):
                frame = replace(frame, **{slot: self.detail(slot, frame, draw)})
        return frame

    def change(self, frame: Frame, slots: Sequence[str], draw: Draw) -> Frame:
        """Return `frame` with another value in each of `slots`."""
        for slot in slots:
            frame = self._change_one(frame, slot, draw)
        return frame

    def _change_one(self, frame: Frame, slot: str, draw: Draw) -> Frame:
        if slot in ("where", "when", "how", "who_trait", "whom_trait"):
            old = getattr(frame, slot)
            if old is not None and draw.chance(0.4):
                return replace(frame, **{slot: None})
            new = old
            while new == old:
                new = self.detail(slot, frame, draw)
            return replace(frame, **{slot: new})
        if slot == "who":
            others = [
                one for one in AGENTS[frame.domain] + ANYONE if one not in (frame.who, frame.whom)
            ]
            return replace(frame, who=draw.pick(others))
        if slot == "whom":
            kinds = (frame.whom.kind,) if draw.chance(0.6) else frame.what.kinds
            others = [
                one for one in objects(frame.domain, kinds) if one not in (frame.who, frame.whom)
            ]
            return fit_trait(replace(frame, whom=draw.pick(others)))
        return self._change_action(frame, draw)

    def _change_action(self, frame: Frame, draw: Draw) -> Frame:
        others = [one for one in ACTIONS[frame.domain] + SHARED if one != frame.what]
        fitting = [one for one in others if frame.whom.kind in one.kinds]
        if fitting and draw.chance(0.7):
            return replace(frame, what=draw.pick(fitting))
        what = draw.pick(others)
        whom = draw.pick([one for one in objects(frame.domain, what.kinds) if one != frame.who])
        return fit_trait(replace(frame, what=what, whom=whom))


def fit_trait(frame: Frame) -> Frame:
    """Return `frame` without an adjective that does not suit its object."""
    if frame.whom_trait is None or frame.whom_trait in traits(frame.whom):
        return frame
    return replace(frame, whom_trait=None)


def entity_similarity(a: Entity, b: Entity) -> float:
    if a == b:
        return 1.0
    if a.kind == "people" and b.kind == "people":
        return 0.4 if a.domain == b.domain else 0.15
    if a.domain != b.domain:
        return 0.0
    return 0.55 if a.kind == b.kind else 0.3


def action_similarity(a: Action, b: Action) -> float:
    if a == b:
        return 1.0
    if a.domain != b.domain:
        return 0.0
    return 0.45 if any(kind in b.kinds for kind in a.kinds) else 0.25


def slot_similarity(a: Frame, b: Frame, slot: str) -> float | None:
    """Return the similarity in [0, 1] of one slot; None if neither frame fills it."""
    if slot == "what":
        return action_similarity(a.what, b.what)
    if slot in ("who", "whom"):
        return entity_similarity(getattr(a, slot), getattr(b, slot))
    x, y = getattr(a, slot), getattr(b, slot)
    if x is None and y is None:
        return None
    if x is None or y is None:
        return SAID_ONCE
    if x == y:
        return 1.0
    return 0.4 if slot == "where" and a.domain == b.domain else 0.0


def gold(a: Frame, b: Frame) -> float:
    """Return 0 (unrelated) to 5 (same meaning), in steps of 0.2: the weighted mean over the filled
    slots."""
    total = weight = 0.0
    for slot, slot_weight in WEIGHTS.items():
        similarity = slot_similarity(a, b, slot)
        if similarity is not None:
            total += slot_weight * similarity
            weight += slot_weight
    score = 5 * total / weight
    if a.negated != b.negated:
        score *= OTHER_POLARITY
    return round(score * 5 + 1e-9) / 5
