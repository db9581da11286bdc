"""The words of the bundled world: who acts, on what, where, when and how.

Notation of the strings below: ``/`` joins words of one meaning (a *concept*), ``,`` separates
concepts. An action is ``verbs: object classes``, the classes joined by ``|``. An object class is
named ``class@adjectives``, the second half naming the list in ADJECTIVES that its objects may
carry. The class ``people`` stands for the agents themselves."""

from __future__ import annotations

from dataclasses import dataclass

Concept = tuple[str, ...]


@dataclass(frozen=True)
class Domain:
    """One domain of the world. Concepts are tuples of interchangeable words; actions name the
    classes they apply to."""

    name: str
    agents: tuple[Concept, ...]
    objects: dict[str, tuple[Concept, ...]]
    adjectives: dict[str, str]
    actions: tuple[tuple[Concept, tuple[str, ...]], ...]
    places: tuple[Concept, ...]


def concepts(text: str) -> tuple[Concept, ...]:
    """Parse the concepts of a comma-separated list."""
    return tuple(tuple(word.strip() for word in concept.split("/")) for concept in text.split(","))


def domain(name: str, agents: str, places: str, objects: dict[str, str], actions: str) -> Domain:
    """Return a Domain from the compact notation of this file."""
    classes = [key.split("@") for key in objects]
    pairs = [action.split(":") for action in actions.split(",")]
    return Domain(
        name=name,
        agents=concepts(agents),
        objects={key.split("@")[0]: concepts(words) for key, words in objects.items()},
        adjectives=dict(classes),
        actions=tuple(
            (concepts(verbs)[0], tuple(kinds.strip().split("|"))) for verbs, kinds in pairs
        ),
        places=concepts(places),
    )


# Anybody: may act in any domain.
ANYBODY = concepts(
    "man/gentleman, woman/lady, boy/lad, girl/lass, grandmother/granny, "
    "grandfather/grandpa, tourist/visitor, "
    "neighbor, volunteer/helper"
)

# Done to people in any domain.
SHARED_ACTIONS = (
    "help/assist: people, greet/welcome: people, thank: people, call/phone: people, "
    "follow/trail: people, "
    "watch/observe: people, interview/question: people, scold/rebuke: people, pay: "
    "people, praise/applaud: people"
)

DOMAINS = (
    domain(
        "kitchen",
        "chef/cook, baker, waiter/server, butcher, dishwasher, hostess",
        "in the kitchen, in the restaurant/in the diner, in the bakery, on the "
        "terrace/on the patio, in the cellar",
        {
            "produce@food": "tomato, onion, apple, cabbage, carrot, mushroom, lemon, potato",
            "liquid@food": "soup/broth, stew, sauce/gravy, tea, coffee",
            "dough@food": "bread/loaf, cake, pie/tart, pizza, biscuit/cookie",
            "ware@thing": "pot, pan/skillet, plate/dish, bowl, mug/cup, kettle",
        },
        "slice/cut/chop: produce, peel: produce, boil/simmer: produce|liquid, stir/mix: liquid, "
        "taste/sample: liquid|dough, bake: dough, serve: liquid|dough, eat/devour: produce|dough, "
        "wash/rinse: ware|produce, scrub/scour: ware, pour: liquid, fill: ware",
    ),
    domain(
        "music",
        "guitarist, pianist, singer/vocalist, drummer/percussionist, "
        "composer/songwriter, conductor",
        "on the stage, in the concert hall/in the auditorium, in the studio, at the "
        "festival, in the nightclub",
        {
            "instrument@thing": "guitar, piano, violin/fiddle, drum, flute, trumpet, cello",
            "piece@work": "song/tune, melody, symphony, ballad, anthem/hymn, opera",
            "recording@work": "album/record, concert/gig",
        },
        "play: instrument|piece, tune/adjust: instrument, compose: piece, record/tape: piece, "
        "rehearse/practice: piece, sing/hum: piece, release/publish: recording, cancel: recording, "
        "announce/promote: recording, smash: instrument, polish: instrument",
    ),
    domain(
        "sport",
        "goalkeeper/goalie, runner/sprinter, coach/trainer, referee/umpire, "
        "striker/forward, boxer, captain",
        "in the stadium/in the arena, on the field/on the pitch, at the pool, in the "
        "gym, in the locker room",
        {
            "ball@thing": "ball, frisbee/disc, javelin/spear, puck, racket",
            "event@event": "race, match/game, tournament/championship, final, marathon",
            "prize@thing": "trophy/cup, medal",
        },
        "kick/boot: ball, throw/toss/hurl: ball, catch/grab: ball, drop: ball|prize, "
        "win/clinch: event|prize, "
        "lose: event|prize, attend: event, start/begin: event, end/finish: event, hold "
        "up/raise: prize, "
        "dominate: event",
    ),
    domain(
        "farm",
        "farmer/grower, shepherd/herder, milkmaid, cowboy, beekeeper, rancher",
        "in the barn/in the stable, on the farm, in the meadow/in the pasture, in the "
        "orchard, in the valley",
        {
            "animal@animal": "cow, sheep/lamb, chicken/hen, pig/hog, duck, goat, goose",
            "crop@food": "wheat/grain, corn/maize, pumpkin, barley, hay/straw, rice",
            "mount@animal": "horse/stallion, donkey/mule, pony, camel",
        },
        "feed: animal|mount, chase/pursue: animal, herd/drive: animal, "
        "harvest/reap/gather: crop, plant/sow: crop, "
        "ride/mount: mount, brush/groom: mount, weigh: animal|crop, sell: "
        "animal|mount|crop, store/stockpile: crop, "
        "saddle: mount",
    ),
    domain(
        "hospital",
        "doctor/physician, nurse, surgeon, paramedic/medic, pharmacist/druggist, dentist",
        "in the hospital/at the clinic, in the ambulance, in the ward, in the "
        "laboratory/in the lab, "
        "in the waiting room",
        {
            "patient@person": "patient, child/kid, victim/casualty, baby/infant, newcomer",
            "body@body": "wound/injury, knee, shoulder, ankle, tooth, arm, eye",
            "drug@drug": "medicine/medication, vaccine, antibiotic, painkiller, "
            "ointment/cream, vitamin",
        },
        "treat/heal/cure: patient|body, examine/inspect: patient|body, operate on: patient|body, "
        "bandage/dress: body, prescribe/order: drug, inject/administer: drug, "
        "swallow/ingest: drug, "
        "recommend/suggest: drug, comfort/console: patient, lift/carry: patient, measure: body",
    ),
    domain(
        "office",
        "manager/boss, secretary/clerk, accountant/bookkeeper, programmer/coder, "
        "lawyer/attorney, intern/trainee",
        "in the office, at the desk, in the meeting room, at the courthouse/in the "
        "courtroom, in the archive",
        {
            "document@text": "report, letter/note, contract/agreement, invoice/bill, "
            "email/message, "
            "memo, budget",
            "device@thing": "printer, computer/laptop, telephone/handset, scanner, projector, "
            "keyboard",
        },
        "write/draft: document, sign/approve: document, send/mail/dispatch: document, "
        "copy/duplicate: document, "
        "shred/destroy: document, file: document, repair/fix: device, unplug/disconnect: device, "
        "install/set up: device, use/operate: device, check/verify: document|device",
    ),
    domain(
        "road",
        "driver/motorist, cyclist/biker, mechanic, policeman/cop, pedestrian/walker, "
        "courier/messenger",
        "on the street/on the road, in the garage, on the bridge, at the crossing/at the "
        "junction, in the tunnel",
        {
            "vehicle@thing": "car/automobile, truck/lorry, bus/coach, motorcycle/motorbike, "
            "bicycle/bike, van, "
            "taxi/cab",
            "criminal@person": "thief/robber, smuggler, vandal, burglar, suspect",
            "part@thing": "wheel, brake, engine/motor, tire, mirror",
        },
        "steer: vehicle, park: vehicle, stop/halt: vehicle|criminal, push/shove: "
        "vehicle, arrest/detain: criminal, "
        "replace/change: part, mend/patch: part|vehicle, rent/hire: vehicle, "
        "overtake/pass: vehicle, "
        "release/free: criminal, test: part|vehicle, search: criminal|vehicle",
    ),
    domain(
        "school",
        "teacher/instructor, student/pupil, professor/lecturer, librarian, "
        "headmaster/principal, janitor/caretaker",
        "in the classroom, in the library, on the playground, in the cafeteria/in the canteen, "
        "in the corridor/in the hallway",
        {
            "book@text": "book, novel, dictionary, magazine/journal, textbook, atlas",
            "subject@topic": "history, geometry, chemistry, grammar, physics, poetry",
            "problem@topic": "puzzle/riddle, equation, exercise, exam/test",
            "tool@thing": "pencil, backpack/schoolbag, ruler, eraser, notebook",
        },
        "read: book, teach/explain: subject|problem, study/learn: subject, borrow: book|tool, "
        "return/give back: book|tool, solve/work out: problem, forget: subject|tool, "
        "summarize/outline: book, "
        "memorize: subject, open: book|tool, correct/grade: problem",
    ),
    domain(
        "art",
        "painter/artist, sculptor, photographer, weaver, potter, curator, dancer",
        "in the gallery, in the museum, at the workshop/in the atelier, in the courtyard, "
        "in the theater/in the playhouse",
        {
            "picture@work": "portrait, landscape, mural/fresco, poster, sketch/drawing",
            "statue@thing": "statue/sculpture, mask, vase/urn, bust, carpet/rug",
            "scene@scene": "sunset/dusk, bride, skyline, waterfall, parade/procession",
        },
        "paint: picture|scene, frame: picture, carve/sculpt: statue, photograph/shoot: "
        "scene|statue, "
        "exhibit/display: picture|statue, admire/marvel at: picture|statue|scene, "
        "restore/renovate: picture|statue, "
        "auction: picture|statue, describe/depict: scene, donate/give away: picture|statue",
    ),
    domain(
        "sea",
        "fisherman/angler, sailor/seaman, skipper, diver, pirate/buccaneer, lifeguard",
        "at sea/on the ocean, in the harbor/at the port, on the beach/on the shore, on "
        "the island, near the lighthouse",
        {
            "fish@fish": "salmon, tuna, crab, lobster, shark, octopus/squid, eel",
            "boat@thing": "boat/vessel, ship, canoe/kayak, raft, yacht/sailboat, ferry",
            "riches@thing": "treasure/hoard, pearl, coin, map/chart, anchor",
        },
        "hook: fish, grill/roast: fish, sail/navigate: boat, moor/tie up: boat, "
        "find/discover: riches, "
        "steal/snatch: riches|boat, bury/hide: riches, sink: boat, rescue/save: boat, "
        "trade/barter: riches|fish, "
        "spot/sight: boat|fish",
    ),
    domain(
        "building",
        "carpenter/woodworker, plumber, electrician, architect, bricklayer/mason, roofer, engineer",
        "at the construction site, on the roof, in the basement, on the scaffold, in the "
        "tower/in the skyscraper",
        {
            "structure@place": "house/home, wall, fence, staircase/stairway, chimney, shed/hut",
            "material@thing": "brick, plank/board, tile, pipe/tube, cable/wire",
            "gear@thing": "hammer/mallet, saw, drill, ladder, shovel/spade",
        },
        "build/construct: structure, design/plan: structure, demolish/tear down: structure, "
        "measure: structure|material, saw/trim: material, lay/place: material, "
        "stack/pile: material, sharpen: gear, "
        "lend: gear, haul/drag: material|gear, insulate: structure, inspect/survey: structure",
    ),
    domain(
        "shop",
        "shopkeeper/merchant, cashier/teller, customer/shopper, tailor/seamstress, "
        "jeweler, florist",
        "in the shop/in the store, at the market/at the bazaar, at the counter, in the "
        "warehouse/in the depot, "
        "in the mall",
        {
            "clothing@cloth": "shirt/blouse, jacket/coat, dress/gown, hat/cap, scarf/shawl, sock",
            "jewel@thing": "ring, necklace, bracelet, watch, brooch",
            "flower@plant": "rose, tulip, orchid, bouquet, lily",
        },
        "buy/purchase: clothing|jewel|flower, wrap/pack: jewel|flower|clothing, "
        "sew/stitch: clothing, "
        "iron/press: clothing, wear/put on: clothing|jewel, water: flower, arrange: "
        "flower, engrave: jewel, "
        "try on: clothing, order/request: flower|clothing, deliver: flower|jewel, "
        "exchange/swap: clothing|jewel",
    ),
)

ADJECTIVES = {
    "person": concepts(
        "young/youthful, old/elderly, tall, tired/weary, famous/renowned, strong/sturdy, "
        "nervous/anxious, lazy/idle"
    ),
    "thing": concepts(
        "big/large, small/little, red, blue, heavy/weighty, costly/expensive, "
        "dirty/filthy, new, broken/damaged"
    ),
    "food": concepts(
        "fresh, cold/chilled, hot/warm, sweet/sugary, rotten/spoiled, cheap/inexpensive"
    ),
    "work": concepts(
        "old/ancient, famous/renowned, sad/gloomy, modern, beautiful/lovely, strange/odd"
    ),
    "event": concepts("long, important/major, famous/renowned, annual/yearly, tough/difficult"),
    "animal": concepts("young/youthful, brown, white, hungry/starving, wild/untamed, big/large"),
    "body": concepts("swollen/puffy, broken/fractured, sore/painful, left, right"),
    "drug": concepts("new, strong/potent, cheap/inexpensive, bitter, rare/scarce"),
    "text": concepts("long, short/brief, important/major, new, boring/dull, secret/confidential"),
    "topic": concepts("tough/difficult, easy/simple, modern, boring/dull"),
    "scene": concepts("beautiful/lovely, colorful, strange/odd, distant/faraway"),
    "fish": concepts("big/large, small/little, fresh, rare/scarce, silver"),
    "place": concepts("old/ancient, tall, new, wooden, shabby/decrepit"),
    "cloth": concepts("red, blue, woolen, silk, dirty/filthy, costly/expensive, elegant/stylish"),
    "plant": concepts("red, white, fragrant, wilted/withered, rare/scarce"),
}

TIMES = concepts(
    "in the morning/at dawn, in the evening/at nightfall, at noon/at midday, at "
    "midnight, on monday, on friday, "
    "on sunday, in winter/in wintertime, in summer/in summertime, in spring/in "
    "springtime, before the storm, "
    "after the holiday/after the vacation, every day/daily, again/once more"
)

MANNERS = concepts(
    "quickly/rapidly/swiftly, slowly/leisurely, carefully/cautiously, "
    "happily/cheerfully/gladly, angrily/furiously, "
    "quietly/silently, clumsily/awkwardly, secretly/covertly, proudly, reluctantly/grudgingly"
)
