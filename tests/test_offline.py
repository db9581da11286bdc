"""The page with encoders inside: its tokens, vectors and ranking, in Chromium without a network."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import transformers
from scipy.stats import kendalltau
from tiny_checkpoints import tiny_architecture

from workbench import Encoder, load_pairs
from workbench.errors import EncoderError
from workbench.views import Ask
from workbench.views.encoders import WordOverlap
from workbench.views.offline import pack_encoder, write_offline

QUERY = "The train to the coast was late because of snow."
TARGETS = [
    "My neighbour grows tomatoes.",
    "Bad weather delayed the railway service to the seaside.",
    "<i>late</i> & snow",
    "<i>LATE</i> & snow",
]
HOSTILE = [
    *(
        "a",
        " ",
        "don't (stop) e-mail@x.com",
        "[SEP]-ing [MASK]. [mask]",
        "Häuser naïve İstanbul ΣΑΣ",
        "北京 42% … «ok»",
    ),
    *(
        "x" * 65 + " hello",
        "word " * 100,
        "\u200bzero\u00a0width\u0000\ufffd",
        "日本語とEnglish",
        "\U0001f600 smile\ttab\nline",
    ),
    *("e\u0301 and é", "$1,000.50 + 7^2 = ~`|<>", "</script>", "ß ﬁ Ⅷ ²"),
    *("an unassigned\u0378letter", "\U0002b830\U0002b920"),
]
ENCODERS = ["english-encoder", "world-encoder"]  # pooled by mean, and by [CLS]


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Open the page with two encoders and word overlap, of a phone's width, without a network."""
    file = tmp_path_factory.mktemp("offline") / "ask.html"
    view = Ask([*ENCODERS, "word-overlap"], QUERY, TARGETS)
    context, problems = (
        browser.new_context(offline=True, viewport={"width": 390, "height": 844}),
        [],
    )
    opened = context.new_page()
    opened.set_default_timeout(60_000)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on(
        "request", lambda one: None if one.url.startswith("file:") else problems.append(one.url)
    )
    opened.goto(view.to_html(file, encoder=True, precision="float16").as_uri())
    opened.get_by_text("Rank 1 is the nearest").wait_for()
    yield SimpleNamespace(page=opened, view=view, file=file, problems=problems)
    context.close()
    assert problems == []


def encoded(page: Any, place: int, sentences: list[str]) -> np.ndarray:
    found = page.page.evaluate(
        f"(all) => all.map((one) => [...window.encoders[{place}].encode(one)])", sentences
    )
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("place", range(2), ids=ENCODERS)
def test_tokens_are_those_of_the_tokenizer_and_cosines_those_of_the_encoder(
    page: SimpleNamespace, place: int
):
    encoder = Encoder.from_pretrained(ENCODERS[place], device="cpu", precision="fp32")
    ladders = load_pairs("ladders-all")
    texts = [*HOSTILE, *ladders.sentence2[:60], *load_pairs("world-test").sentence2[:20]]
    ids = page.page.evaluate(
        f"(all) => all.map((one) => window.encoders[{place}].tokens(one))", texts
    )
    cut = {"truncation": True, "max_length": encoder.max_seq_length}
    for text, found in zip(texts, ids, strict=True):
        assert found == encoder.tokenizer(text, **cut)["input_ids"], repr(text)
    some = texts[::3]  # a script takes long for a vector
    rows, expected = encoded(page, place, some), encoder.encode(some).double().numpy()
    assert np.abs(rows @ rows.T - expected @ expected.T).max() < 1e-3


@pytest.mark.slow
def test_what_is_typed_is_ranked_by_every_encoder_as_in_the_notebook(page: SimpleNamespace):
    def shown() -> dict[str, list[str]]:
        rows = page.page.locator("table tr").all()[1:]
        return {
            row.locator("td div").first.inner_text(): row.locator("td").all_inner_texts()[1:]
            for row in rows
        }

    def expected() -> dict[str, list[str]]:
        table, labels = page.view.selected, [*ENCODERS, "word-overlap"]
        return {
            row["target"]: [
                f"{row[f'rank: {label}']:g}\n{row[f'score: {label}']:.3f}" for label in labels
            ]
            for row in table.to_dict("records")
        }

    def same(found: dict[str, list[str]], wanted: dict[str, list[str]]) -> bool:
        def near(one: str, other: str) -> bool:
            (rank, score), (place, cosine) = one.split("\n"), other.split("\n")
            return rank == place and abs(float(score) - float(cosine)) < 2e-3

        return list(found) == list(wanted) and all(
            near(one, other)
            for name in wanted
            for one, other in zip(found[name], wanted[name], strict=True)
        )

    assert same(shown(), expected())
    assert page.page.locator("table i").count() == 0, "what is typed is text"
    page.page.get_by_label("targets").fill(
        "Snow on the coast.\n\nA late train.\nNothing of the kind."
    )
    page.view.select(targets="Snow on the coast.\nA late train.\nNothing of the kind.")
    page.page.locator("td", has_text="A late train.").wait_for()
    assert same(shown(), expected())
    page.page.get_by_label("targets").fill("word " * 200 + "\n\u0378 \u0379")
    page.page.get_by_text("english-encoder: cut after 62 tokens").wait_for()
    page.page.get_by_text("english-encoder: unknown tokens: 2").wait_for()
    # Of many targets the nearest are shown, at their ranks among all; a cut query is said, too.
    page.page.get_by_label("query").fill("word " * 200)
    page.page.get_by_label("targets").fill("\n".join(f"A list of {n}." for n in range(60)))
    page.page.get_by_text("The first 50 of 60 targets. The query: english-encoder: cut").wait_for()
    cells = page.page.locator("table tr td:nth-child(2)").all_inner_texts()
    assert len(cells) == 50
    ranks = [float(cell.split()[0]) for cell in cells]
    assert ranks == sorted(ranks)
    assert ranks[0] == 1
    page.page.evaluate(
        "window.encoders[0].layers = window.encoders[0].weights; window.encoders[0].weights = {}"
    )
    page.page.get_by_label("targets").fill("A third one.")
    page.page.get_by_text("TypeError").wait_for()
    page.page.evaluate("window.encoders[0].weights = window.encoders[0].layers")
    page.page.get_by_label("query").fill("")
    page.page.get_by_text("Type a query and at least one target").wait_for()
    assert page.page.locator("table").count() == 0


@pytest.mark.slow
def test_words_are_those_of_the_word_overlap(page: SimpleNamespace):
    texts = [*HOSTILE, "The cat_1 sat", "the cat_1", "東京・tokyo", "लड़का, लड़की और ชา๚ cat_1"]
    cosine = (
        "([a, b]) => window.encoders[2].cosine(window.encoders[2].encode(a), "
        "window.encoders[2].encode(b))"
    )
    other = "the cat_1 of 東京 and x लड़की ชม・๚"
    for one in texts:
        found = page.page.evaluate(cosine, [one, other])
        encoder = WordOverlap()
        first, second = encoder.encode([one, other])
        norm = np.linalg.norm(first) * np.linalg.norm(second)
        assert found == pytest.approx(first @ second / norm if norm else 0, abs=1e-9), one


@pytest.mark.slow
def test_whole_numbers_of_eight_bits_stay_near(browser: Any, tmp_path: Path):
    view = Ask("english-encoder", QUERY, TARGETS)
    file, full = (
        view.to_html(tmp_path / "a.html", encoder=True),
        view.to_html(tmp_path / "b.html", encoder=True, precision="float16"),
    )
    assert file.stat().st_size < 0.55 * full.stat().st_size
    opened, texts = browser.new_page(), load_pairs("ladders-all").sentence2[:20]
    opened.goto(file.as_uri())
    opened.get_by_text("Rank 1 is the nearest").wait_for()
    rows = encoded(SimpleNamespace(page=opened), 0, texts)
    expected = (
        Encoder.from_pretrained("english-encoder", device="cpu", precision="fp32")
        .encode(texts)
        .double()
        .numpy()
    )
    apart = np.abs(rows @ rows.T - expected @ expected.T)
    opened.close()
    assert 1e-5 < apart.max() < 0.006


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(390, 844), (844, 390)])
def test_ones_own_order_is_compared_by_kendalls_tau_on_a_phone_by_touch_and_by_keys(
    browser: Any, tmp_path: Path, width: int, height: int
):
    from axe_playwright_python.sync_playwright import Axe

    view = Ask(["word-overlap"], "a b c d", ["z", "a b c", "b", "c d x"])
    context = browser.new_context(
        offline=True, has_touch=True, viewport={"width": width, "height": height}
    )
    opened = context.new_page()
    opened.goto(view.to_html(tmp_path / "ask.html", encoder=True).as_uri() + "#vote")
    opened.locator("#own li").nth(3).wait_for()
    assert opened.locator("table").count() == 0, "the encoders' order comes after the own one"
    order = opened.locator("#own span").all_inner_texts()
    assert order == ["z", "c d x", "b", "a b c"]
    opened.get_by_label("up: a b c").tap()
    opened.get_by_label("up: a b c").press("Enter")
    opened.get_by_label("up: a b c").press("Enter")
    own = opened.locator("#own span").all_inner_texts()
    assert own == ["a b c", "z", "c d x", "b"]
    assert opened.evaluate("document.activeElement.getAttribute('aria-label')") == "down: a b c"
    opened.get_by_role("button", name="Compare").tap()
    opened.locator("figcaption").wait_for()
    scores = view.selected.set_index("target")["score: word-overlap"]
    expected = kendalltau([4, 3, 2, 1], scores[own]).statistic
    assert f"tau {expected:.2f}," in opened.locator("figcaption").inner_text()
    assert opened.locator("td.text > div").all_inner_texts() == own
    assert opened.evaluate("document.documentElement.scrollWidth") == width
    for scheme in ("light", "dark"):
        opened.emulate_media(color_scheme=scheme)
        found = Axe().run(opened, options={"resultTypes": ["violations"]})
        assert found.response["violations"] == [], scheme
    # Another question: the encoders' order comes after an order of one's own again.
    opened.locator("#query").fill("a b c e")
    opened.get_by_role("button", name="Compare").wait_for()
    assert opened.locator("#ranking table, figcaption").count() == 0
    opened.locator("#targets").fill("z!\na b c\nb\nc d x")
    changed = ["a b c", "z!", "c d x", "b"]
    assert opened.locator("#own span").all_inner_texts() == changed, (
        "an edited line keeps its place"
    )
    if width > height:
        top = opened.locator("#ranking, #voting").first.bounding_box()
        assert top is not None
        assert top["y"] < height / 3, "beside the texts and not below them"
    context.close()


def changed_tokenizer(folder: Path, change: Callable[[dict[str, Any]], object]) -> Encoder:
    """Return world-encoder with a change of its tokenizer.json."""
    Encoder.from_pretrained("world-encoder", pooling="cls").save(folder)
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    change(tokenizer)
    file.write_text(json.dumps(tokenizer), encoding="utf-8")
    return Encoder.from_pretrained(folder, pooling="cls", device="cpu")


def odd_encoders(folder: Path) -> dict[str, Encoder]:
    """Return encoders with more rows than tokens, a width of 18, and a token without a number."""
    options: Any = {"pooling": "cls", "device": "cpu", "precision": "fp32"}
    wide, narrow = (Encoder.from_pretrained("world-encoder", **options) for _ in range(2))
    wide.backbone.resize_token_embeddings(len(wide.tokenizer) + 7)
    narrow.save(folder / "narrow")
    sizes = {"hidden_size": 18, "num_attention_heads": 2, "num_hidden_layers": 1}
    config = transformers.BertConfig(
        vocab_size=len(narrow.tokenizer), intermediate_size=33, **sizes
    )
    transformers.BertModel(config).save_pretrained(folder / "narrow")
    narrow = Encoder.from_pretrained(folder / "narrow", **options)
    gap = changed_tokenizer(folder / "gap", lambda one: one["model"]["vocab"].pop("boat"))
    return {"wide": wide, "narrow": narrow, "gap": gap}


@pytest.mark.slow
def test_odd_sizes_gaps_in_the_vocabulary_and_long_words_are_no_problem(
    browser: Any, tmp_path: Path
):
    encoders = odd_encoders(tmp_path)
    texts = ["the cook", "the boat"]
    opened = browser.new_page()
    view = Ask(encoders, "the cook", ["the boat", "x" * 40_000])
    file = view.to_html(tmp_path / "a.html", encoder=True, precision="float16")
    opened.goto(file.as_uri())
    opened.get_by_text("Rank 1 is the nearest").wait_for()
    assert str(tmp_path) not in file.read_text(encoding="utf-8")
    for place, (name, encoder) in enumerate(encoders.items()):
        rows = encoded(SimpleNamespace(page=opened), place, texts)
        assert rows.shape == (2, encoder.dimension)
        expected = encoder.encode(texts).double().numpy()
        assert np.abs(rows @ rows.T - expected @ expected.T).max() < 2e-3, name
    opened.close()


def test_an_encoder_that_the_script_cannot_compute_is_refused_by_its_reason(tmp_path: Path):
    roberta = tiny_architecture(tmp_path / "roberta", transformers.RobertaConfig)
    rule = {
        "special": False,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": True,
    }
    added = changed_tokenizer(
        tmp_path / "added",
        lambda one: one["added_tokens"].append(
            rule | {"id": one["model"]["vocab"]["boat"], "content": "boat"}
        ),
    )
    for encoder, words in (
        (added, "has added tokens with rules"),
        (
            Encoder.from_pretrained("english-encoder", pooling="max"),
            "english-encoder has pooling 'max'",
        ),
        (Encoder.from_pretrained(roberta), "only contain a BERT"),
        (np.tanh, "only contain a BERT"),
    ):
        with pytest.raises(EncoderError, match=words):
            pack_encoder(encoder)
    with pytest.raises(ValueError, match=r"no precision 'int4' of a page.*known: float16, int8"):
        Ask("world-encoder", QUERY, TARGETS).to_html(
            tmp_path / "ask.html", encoder=True, precision="int4"
        )
    view = Ask({"mine": lambda sentences: np.ones((len(sentences), 2))}, QUERY, TARGETS)
    with pytest.raises(EncoderError, match="only contain a BERT"):
        view.to_html(tmp_path / "ask.html", encoder=True)
    assert not (tmp_path / "ask.html").exists()
    assert "1.000" in view.to_html(tmp_path / "ask.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("precision", ["int8", "float16"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e5])
def test_an_encoder_whose_weights_are_not_finite_is_refused(
    tmp_path: Path, value: float, precision: Any
):
    encoder = Encoder.from_pretrained("world-encoder", pooling="cls", device="cpu")
    encoder.backbone.get_input_embeddings().weight.data[7, 3] = value
    file = tmp_path / "ask.html"
    with pytest.raises(
        EncoderError, match="has weights that are not finite, or too large for 16 bits"
    ):
        write_offline(file, {"mine": encoder}, QUERY, TARGETS, precision)
    assert not file.exists()


@pytest.mark.slow
def test_what_the_browser_brings_back_is_ranked(browser: Any, tmp_path: Path):
    path = Ask(["word-overlap"], QUERY, TARGETS).to_html(tmp_path / "a.html", encoder=True)
    opened = browser.new_page()
    opened.goto(path.as_uri())
    opened.get_by_label("query").fill("a late train")
    opened.get_by_label("targets").fill("the late train\nno such thing")
    opened.locator("#ranking td", has_text="the late train").wait_for()
    opened.goto("about:blank")
    opened.go_back()
    opened.get_by_text("Rank 1 is the nearest").wait_for()
    ranked = opened.locator("#ranking td.text").all_inner_texts()
    typed = opened.get_by_label("targets").input_value()
    assert [text.strip() for text in ranked] == typed.split("\n")
    opened.close()


@pytest.mark.slow
def test_a_zero_vector_has_the_cosine_0_and_one_that_is_not_finite_is_said_in_words(
    browser: Any, tmp_path: Path
):
    encoder = Encoder.from_pretrained(
        "world-encoder", pooling="cls", device="cpu", precision="fp32"
    )
    last = encoder.backbone.encoder.layer[-1].output.LayerNorm
    for part in (last.weight, last.bias):
        part.data.zero_()
    file = write_offline(tmp_path / "a.html", {"zero": encoder}, QUERY, TARGETS, "int8")
    opened = browser.new_page()
    opened.goto(file.as_uri())
    opened.get_by_text("Rank 1 is the nearest").wait_for()
    cells = [cell.split("\n") for cell in opened.locator("td.number").all_inner_texts()]
    assert cells == [["2.5", "0.000"]] * 4
    opened.evaluate("window.encoders[0].weights['encoder.layer.1.output.LayerNorm.bias'][0] = NaN")
    opened.get_by_label("query").fill("another")
    opened.get_by_text("zero gives vectors that are not finite").wait_for()
    assert "NaN" not in opened.locator("body").inner_text()
    opened.close()
