"""The pages of the evaluator's service: what they show, what they escape, which forms they take."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from evaluator.experiments.experiment import Experiment
from evaluator.runs.run_folder import RunFolder
from evaluator.service.app import build_app
from evaluator.settings import EvaluatorSettings
from services.chassis.page_headers import PAGE_HEADERS
from tests.support.evaluator_service import ended, evaluator, hanging
from tests.support.gateway_stub import GatewayStub, write_shop
from tests.support.opened_client import opened_client
from tests.support.small_runs import evaluated, planned

HOSTILE = "<script>alert(1)</script>"
SHOWN = "&lt;script&gt;alert(1)"


@pytest.fixture
def body(tmp_path: Path) -> dict[str, object]:
    return {"name": "small", "dataset": str(write_shop(tmp_path / "shop")), "pipelines": ["bm25", "dense"]}


async def finished(client: httpx.AsyncClient, body: Mapping[str, object]) -> str:
    run: str = (await client.post("/v1/experiments", json=body)).json()["id"]
    assert (await ended(client, run))["state"] == "done"
    return run


async def compared(client: httpx.AsyncClient, query: str) -> httpx.Response:
    """Loads a comparison again until it is there, as its page does."""
    for _ in range(100):
        answer = await client.get(f"/compare?{query}")
        if "refresh" not in answer.headers:
            return answer
    raise AssertionError("the comparison did not end")


def ticked(page: str) -> list[str]:
    """Returns the pipelines that a comparison's page shows as chosen."""
    return re.findall(r'name="runs" value="([^"]+)" checked', page)


async def test_the_list_shows_the_newest_run_first_and_a_page_at_a_time(
    body: dict[str, object], tmp_path: Path
) -> None:
    for number in range(53):
        folder = tmp_path / "runs" / f"20260101T0000{number:02d}000Z-small-0123abcd"
        folder.mkdir(parents=True)
        RunFolder(folder).write("experiment.json", Experiment.model_validate(body))
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        first, second = await client.get("/"), await client.get("/?page=2")
        beyond = [(await client.get(f"/?page={page}")).status_code for page in ("3", "0", "x")]
    links = [re.findall(r'href="/runs/([^"]+)"', page.text) for page in (first, second)]
    assert (len(links[0]), links[0][0], len(links[1])) == (50, "20260101T000052000Z-small-0123abcd", 3)
    assert 'rel="next" href="/?page=2"' in first.text
    assert "interrupted" in first.text
    assert beyond == [404, 404, 422]


async def test_the_list_shows_dataset_verdict_and_a_name_of_its_own_of_every_run(
    body: dict[str, object], tmp_path: Path
) -> None:
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        runs = [await finished(client, body) for _ in range(2)]
        shutil.move(tmp_path / "runs" / runs[0], tmp_path / "runs" / f"20260101T000000000Z{runs[0][19:]}")
        shown = (await client.get("/")).text
    names = re.findall(r'href="/runs/[^"]+">([^<]+)</a>', shown)
    assert (len(names), len(set(names))) == (2, 2)
    assert shown.count('data-label="Dataset">shop<') == 2
    assert len(re.findall(r'data-label="Verdict">ship ', shown)) == 2


async def test_an_empty_folder_says_how_to_begin(tmp_path: Path) -> None:
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        assert "There is no run here yet" in (await client.get("/")).text


async def test_a_finished_run_shows_its_report_with_charts(body: dict[str, object], tmp_path: Path) -> None:
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        run = await finished(client, body)
        page = await client.get(f"/runs/{run}")
    assert "<h1>small: shop, split test</h1>" in page.text
    assert page.text.count("<svg viewBox") >= 2
    assert f'href="/compare?runs={run}"' in page.text


async def test_a_load_without_a_report_is_shown(tmp_path: Path) -> None:
    experiment = planned(tmp_path, pipelines=["bm25"], load={"rates": [20], "seconds": 1, "warmup_seconds": 0})
    _, folder = await evaluated(GatewayStub(), experiment, tmp_path)
    for name in ("report.json", "rank.json"):
        (folder.path / name).unlink()
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        page = await client.get(f"/runs/{folder.name}")
    assert ('<h2 id="load">Load</h2>' in page.text, "step load" in page.text) == (True, True)
    assert "nDCG@10 and p99 against the offered rate" in page.text


async def test_a_running_experiment_shows_its_progress_and_can_be_cancelled(
    body: dict[str, object], tmp_path: Path
) -> None:
    stub = GatewayStub(hangs_after=14)  # after two checks and ten warm-up queries
    async with evaluator(stub, tmp_path / "runs") as client:
        run = (await client.post("/v1/experiments", json=body)).json()["id"]
        await hanging(stub)
        page = await client.get(f"/runs/{run}")
        part = await client.get(f"/progress/{run}")
        refused = await client.post(f"/cancel/{run}", data={"run": ""}, headers={"origin": "http://evil.example"})
        cancelled = await client.post(f"/cancel/{run}", data={"run": ""})
        after = await client.get(f"/runs/{run}")
        again = await client.post(f"/cancel/{run}", data={"run": ""})
    assert "Ranking:" in page.text
    assert " of 8 queries" in part.text
    assert 'data-watch="/progress/' in page.text
    assert 'class="state running"' in part.text  # by which watch.js tells whether it goes on
    assert refused.status_code == 403
    assert (cancelled.status_code, cancelled.headers["location"]) == (303, f"/runs/{run}")
    assert "cancelled on request" in after.text
    assert again.status_code == 409


async def test_runs_are_compared_with_verdict_tables_and_examples(body: dict[str, object], tmp_path: Path) -> None:
    async with evaluator(GatewayStub(approximate_misses=1), tmp_path / "runs") as client:
        run = await finished(client, body)
        page = await compared(client, f"runs={run}")
        alone = await compared(client, f"runs={run}:bm25")
        wrong = await compared(client, f"runs={run}&metric=nonsense")
    assert "dense is the same as bm25" in page.text or "cannot tell dense from bm25" in page.text
    assert "Differences in nDCG@10, query by query" in page.text
    assert "Biggest losses of dense" in page.text
    assert "Red bell" in page.text  # the title of a document
    assert (alone.status_code, "One pipeline alone has nothing to be compared with" in alone.text) == (200, True)
    assert (wrong.status_code, "metric: " in wrong.text) == (422, True)


async def test_pipelines_baseline_and_metric_of_a_comparison_are_chosen_on_its_page(
    body: dict[str, object], tmp_path: Path
) -> None:
    async with evaluator(GatewayStub(approximate_misses=1), tmp_path / "runs") as client:
        run, other = [await finished(client, body) for _ in range(2)]
        whole = await compared(client, f"runs={run}")
        chosen = await compared(client, f"runs={run}:bm25&runs={run}:dense&baseline={run}:dense&metric=MRR@10")
        both = await compared(client, f"runs={run}&runs={other}:bm25&baseline={run}:dense")
        missing = await compared(client, f"runs={run}&baseline=../x")
    assert ticked(whole.text) == [f"{run}:bm25", f"{run}:dense"]
    assert f'<option value="{run}:bm25" selected>' in whole.text
    assert ("bm25 against dense" in chosen.text, "Comparison: MRR@10 on shop" in chosen.text) == (True, True)
    assert f'<option value="{run}:dense" selected>' in chosen.text
    assert "<option selected>MRR@10</option>" in chosen.text
    assert (len(ticked(both.text)), both.text.count("against dense")) == (3, 4)  # of two panels, each described twice
    assert missing.status_code == 404


async def test_runs_of_other_pipelines_are_offered_to_choose_from_and_compared_by_a_click(
    body: dict[str, object], tmp_path: Path
) -> None:
    async with evaluator(GatewayStub(approximate_misses=1), tmp_path / "runs") as client:
        first, second, third = [
            await finished(client, body | {"pipelines": names})
            for names in (["bm25", "dense"], ["hybrid", "dense"], ["hybrid"])
        ]
        shared = await compared(client, f"runs={first}&runs={second}")
        none_shared = await compared(client, f"runs={first}&runs={third}")
        chosen = await compared(client, "&".join([*(f"runs={word}" for word in ticked(shared.text)),
                                                  f"baseline={first}:dense"]))  # fmt: skip
        wire = await client.post("/v1/comparisons", json={"runs": [first, second]})
    assert (shared.status_code, ticked(shared.text)) == (200, [f"{first}:dense", f"{second}:dense"])
    assert f'<option value="{first}:dense" selected>' in shared.text
    assert "The runs do not have the same pipelines" in shared.text
    assert ticked(none_shared.text)[1:] == [f"{third}:hybrid"]
    assert len(ticked(none_shared.text)) == 2
    assert "Comparison: nDCG@10 on shop" in chosen.text
    assert all(f"{run}:dense" in chosen.text for run in (first, second))
    assert (wire.status_code, "it has bm25, dense. Name the pipelines" in wire.json()["detail"]) == (409, True)


@pytest.mark.parametrize("query", ["", "runs=../x", "runs=latest", "runs=20260101T000000Z-small-0123abcd"])
async def test_only_runs_that_are_here_are_compared(query: str, tmp_path: Path) -> None:
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        answer = await client.get(f"/compare?{query}")
    assert answer.status_code in (404, 422)
    assert 'role="alert"' in answer.text


async def test_the_form_lists_what_there_is_to_choose_from(tmp_path: Path) -> None:
    def choices(page: str, name: str) -> list[str]:
        return re.findall(rf'type="checkbox" name="{name}" value="([^"]*)"', page)

    write_shop(tmp_path / "shop")
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        page = (await client.get("/new")).text
    own = [*(f"rerank-{depth}" for depth in (10, 20, 50, 100, 200)), "alone-100"]  # a bundled experiment defines them
    # Not deepct, which no collection of these experiments has expansions for, nor what this gateway does not serve.
    assert choices(page, "pipelines") == ["bm25", "dense", "hybrid", *own]
    assert choices(page, "metrics")[:2] == ["nDCG@10", "MRR@10"]
    assert re.findall(r'<option value="(shop|bicycle-workshop)">', page) == ["shop", "bicycle-workshop"]
    baselines = page.partition('id="baseline"')[2].partition("</select>")[0]
    assert re.findall(r'<option value="([^"]*)">', baselines) == ["", "bm25", "dense", "hybrid", *own]
    assert "does not answer" not in page


@pytest.mark.parametrize("linked", ["https://search.example", None])
async def test_every_page_links_to_where_a_setting_says_that_browsers_find_the_search_page(
    linked: str | None, tmp_path: Path
) -> None:
    settings = EvaluatorSettings(runs=tmp_path / "runs", gateway_url="http://127.0.0.1:9", search_url=linked)
    async with opened_client(build_app(settings)) as client:
        pages = [(await client.get(path)).text for path in ("/", "/runs/none")]
    for page in pages:
        assert re.findall(r'<a href="([^"]+)">Search</a>', page) == ([linked] if linked else [])


async def test_the_form_is_there_without_a_gateway(tmp_path: Path) -> None:
    settings = EvaluatorSettings(runs=tmp_path / "runs", gateway_url="http://127.0.0.1:9")
    async with opened_client(build_app(settings)) as client:
        page = (await client.get("/new")).text
    assert "The gateway does not answer" in page
    assert 'value="hybrid-rerank"' in page


async def test_the_form_starts_a_bundled_experiment_with_what_it_is_given(tmp_path: Path) -> None:
    shop = write_shop(tmp_path / "shop")
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        fields = {
            "experiment": "scifact",
            "dataset": str(shop),
            "pipelines": ["hybrid", "bm25"],
            "baseline": "dense",
            "metrics": ["MRR@10", "bpref"],
            "queries": "2",
        }
        started = await client.post("/new", data=fields)
        run = started.headers["location"].removeprefix("/runs/")
        assert (await ended(client, run))["state"] == "done"
        report = (await client.get(f"/v1/experiments/{run}/report")).json()
    assert started.status_code == 303
    assert (report["dataset"], report["baseline"], report["sample"]) == ("shop", "dense", 2)
    assert set(report["pipelines"]) == {"hybrid", "bm25", "dense"}
    assert list(report["pipelines"]["dense"]["quality"]) == ["MRR@10", "bpref"]


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"experiment": "../x"}, 422, "is no bundled experiment"),
        ({"experiment": "scifact", "dataset": HOSTILE}, 422, "is not served"),
        ({"experiment": "scifact", "queries": "many"}, 422, "many is no number"),
        ({"experiment": "demo", "dataset": "\0"}, 422, "is not served"),
        ({"experiment": "demo", "dataset": "x" * 5_000}, 422, "is not served"),
        ({"experiment": "demo", "pipelines": "bm26"}, 404, "there are bm25, dense, hybrid"),
        ({"experiment": "demo", "baseline": "splade"}, 404, "splade: there are bm25, dense"),
        ({"experiment": "demo", "pipelines": "mine.yaml"}, 422, "pipelines.0"),  # no file is read for a form
        ({"experiment": "demo", "metrics": "nDGC@10"}, 422, "nDGC@10"),
    ],
)
async def test_a_form_that_cannot_start_comes_back_with_the_reason_and_what_was_filled_in(
    fields: dict[str, str], status: int, said: str, tmp_path: Path
) -> None:
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        answer = await client.post("/new", data=fields)
    assert (answer.status_code, said in answer.text) == (status, True), answer.text
    assert f'value="{fields.get("pipelines", "")}"' in answer.text
    assert "<script>alert" not in answer.text
    assert not (tmp_path / "runs").exists()


async def test_texts_of_a_dataset_are_shown_and_not_run_on_any_page(tmp_path: Path) -> None:
    shop = write_shop(tmp_path / f"shop {HOSTILE.replace('/', '')}")
    for name in ("corpus.jsonl", "queries.jsonl"):
        path = shop / name
        path.write_text(path.read_text().replace("Red bell", HOSTILE).replace('"red bell"', f'"{HOSTILE} red bell"'))
    for name in ("queries.jsonl", "qrels/test.tsv"):
        path = shop / name
        path.write_text(path.read_text().replace("q1", "<script>alert(1)<script>"))
    body = {"name": "small", "dataset": str(shop), "collection": "shop", "pipelines": ["bm25", "dense"]}
    async with evaluator(GatewayStub(approximate_misses=1), tmp_path / "runs") as client:
        run = await finished(client, body)
        pages = {
            "list": await client.get("/"),
            "run": await client.get(f"/runs/{run}"),
            "comparison": await compared(client, f"runs={run}"),
            "problem": await client.get(f"/runs/{HOSTILE}"),
            "form": await client.get("/new"),
        }
    for name, page in pages.items():
        assert "<script>" not in page.text.lower(), name
        assert name == "form" or SHOWN in page.text, name
    assert pages["comparison"].text.count(SHOWN) > 3  # dataset, query, title


async def test_every_page_forbids_foreign_content_and_guessing(body: dict[str, object], tmp_path: Path) -> None:
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        run = await finished(client, body)
        paths = ["/", "/new", f"/runs/{run}", f"/progress/{run}", f"/compare?runs={run}", "/runs/none", "/compare"]
        paths += ["/judge", f"/judge?runs={run}", "/judge/none"]
        files = [f"/pages/{name}" for name in ("style.css", "watch.js", "judge.js", "icon.svg")]
        answers = [await client.get(path) for path in [*paths, *files]]
    for answer in answers:
        assert PAGE_HEADERS.items() <= answer.headers.items()
        # The policy would block both.
        assert not re.search(r"<style|\sstyle=|<script(?! src=\"/pages/watch.js\")|\son[a-z]+=", answer.text)


async def test_folders_that_somebody_named_or_copied_do_not_hide_the_list(
    body: dict[str, object], tmp_path: Path
) -> None:
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        run = await finished(client, body)
        odd = "20269999T000000000Z-x-00000000"
        shutil.copytree(tmp_path / "runs" / run, tmp_path / "runs" / odd)
        shutil.copytree(tmp_path / "runs" / run, tmp_path / "runs" / "old" / run)
        listed = await client.get("/")
        page = await client.get(f"/runs/{odd}")
    assert (listed.status_code, page.status_code) == (200, 200)
    assert listed.text.count(f'href="/runs/{run}"') == 1


async def test_a_run_whose_report_is_older_than_its_figures_can_be_reported_again(
    body: dict[str, object], tmp_path: Path
) -> None:
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        run = await finished(client, body)
        quality = tmp_path / "runs" / run / "quality.json"
        quality.write_text(quality.read_text() + "\n")
        page = await client.get(f"/runs/{run}")
        measured = await client.post(f"/measure/{run}", data={"session": ""})
        while (waiting := measured.headers.get("refresh")) is not None:
            measured = await client.get(waiting.partition("url=")[2])
        shown = await client.get(f"/runs/{run}")
    assert (page.status_code, "is not the one that report.json was made from" in page.text) == (409, True)
    assert (shown.status_code, "not the one" in shown.text) == (200, False)
