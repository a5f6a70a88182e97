"""What each path of the API answers, over a real unix socket."""

import json
from urllib.parse import quote

import pytest

from tests.flow.server.engines import FakeEngine
from tests.unit.report.worlds import add_pod, make_pod, mounted
from volmgr.cli.client import Client, Refused
from volmgr.report.events import Severity
from volmgr.server.routes import ROUTES

Json = dict[str, object]


def get(client: Client, target: str) -> Json:
    decoded: Json = json.loads(client.get(target))
    return decoded


def refusal(client: Client, method: str, target: str, body: bytes = b"") -> tuple[int, str]:
    answer = client.answer(method, target, body)
    problem = json.loads(answer.body)
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(problem) == {"type", "title", "status", "detail"}
    assert problem["status"] == answer.status
    return answer.status, problem["detail"]


def test_the_root_lists_every_path(client: Client) -> None:
    paths = json.loads(client.get("/"))["paths"]
    assert {(item["method"], item["path"]) for item in paths} == {(route.method, route.path) for route in ROUTES}
    assert all(item["about"] for item in paths)


def test_health_and_readiness_differ(client: Client, engine: FakeEngine) -> None:
    engine.world.reconstructed = False
    assert get(client, "/healthz")["status"] == "ok"
    answer = client.answer("GET", "/readyz")
    assert (answer.status, json.loads(answer.body)) == (
        503,
        {"ready": False, "reasons": ["reconstruction is not done"]},
    )
    engine.world.reconstructed = True
    assert get(client, "/readyz") == {"ready": True, "reasons": []}


def test_a_daemon_that_does_not_answer_in_time_is_not_healthy(client: Client, engine: FakeEngine) -> None:
    engine.stuck = True
    assert refusal(client, "GET", "/healthz")[0] == 503


def test_metrics_are_prometheus_text(client: Client, engine: FakeEngine) -> None:
    add_pod(engine.world, make_pod("web", "a"))
    text = client.get("/metrics").decode()
    assert 'volmgr_pods{state="pending"} 1.0' in text
    assert "# HELP volmgr_ready" in text


@pytest.mark.parametrize("form", ["web", "default/web", quote("default/web", safe=""), "uid-web"])
def test_a_pod_is_addressed_by_name_namespace_and_name_or_uid(client: Client, engine: FakeEngine, form: str) -> None:
    add_pod(engine.world, make_pod("web", "a"))
    assert get(client, f"/v1/pods/{form}")["uid"] == "uid-web"
    assert "volume a" in str(get(client, f"/v1/pods/{form}/why"))


def test_a_pod_named_like_an_action_is_still_reached(client: Client, engine: FakeEngine) -> None:
    add_pod(engine.world, make_pod("why"))
    assert get(client, "/v1/pods/why")["name"] == "why"
    assert get(client, "/v1/pods/default%2Fwhy")["name"] == "why"


def test_all_pods_are_listed(client: Client, engine: FakeEngine) -> None:
    add_pod(engine.world, make_pod("web", "a"))
    assert get(client, "/v1/pods")["ready"] is True


def test_an_unknown_pod_is_404_with_what_may_be_the_reason(client: Client, engine: FakeEngine) -> None:
    engine.world.sources["directory"] = "cannot be read"
    assert refusal(client, "GET", "/v1/pods/web")[0] == 404
    status, detail = refusal(client, "GET", "/v1/pods/web/why")
    assert status == 404
    assert "source directory: cannot be read" in detail


def test_wait_answers_when_the_condition_is_reached(client: Client, engine: FakeEngine) -> None:
    pod = make_pod("web", "a")
    add_pod(engine.world, pod)
    mounted(engine.world, pod, "a")
    assert get(client, "/v1/pods/web/wait?for=mounted&timeout=2m") == {"reached": "mounted"}


def test_wait_answers_504_and_why_at_the_timeout(client: Client, engine: FakeEngine) -> None:
    add_pod(engine.world, make_pod("web", "a"))
    status, detail = refusal(client, "GET", "/v1/pods/web/wait?timeout=0")
    assert status == 504
    assert detail.startswith("unmounted volumes=[a]")


@pytest.mark.parametrize("query", ["for=eaten", "timeout=soon", "timeout=-1"])
def test_wait_refuses_what_it_does_not_know(client: Client, query: str) -> None:
    assert refusal(client, "GET", f"/v1/pods/web/wait?{query}")[0] == 400


def test_pods_are_posted_and_deleted(client: Client, engine: FakeEngine) -> None:
    results = json.loads(client.post("/v1/pods", b"kind: Pod"))["results"]
    assert results == [
        {"kind": "Pod", "namespace": "default", "name": "web", "uid": "uid-web", "action": "created"},
    ]
    add_pod(engine.world, make_pod("web"))
    assert json.loads(client.request("DELETE", "/v1/pods/web")) == {"uid": "uid-web", "note": ""}


def test_what_is_refused_says_why_and_who_must_act(client: Client) -> None:
    assert refusal(client, "POST", "/v1/pods", b"broken") == (422, "document 2: spec: is no Pod; write one")
    assert refusal(client, "POST", "/v1/pods")[0] == 400
    assert refusal(client, "DELETE", "/v1/pods/web") == (404, "no Pod web is known")
    status, detail = refusal(client, "DELETE", "/v1/pods/filed")
    assert (status, "/manifests/filed.yaml" in detail) == (422, True)


def test_holds_are_made_and_given_back(client: Client, engine: FakeEngine) -> None:
    add_pod(engine.world, make_pod("web"))
    made = json.loads(client.post("/v1/holds", b'{"pod": "web", "pid": 77, "who": "me"}'))
    assert made == {"id": "h1", "pod_uid": "uid-web", "pid": 77, "start_time": 5, "boot_id": "b", "who": "me"}
    assert json.loads(client.request("DELETE", "/v1/holds/h1")) == {"id": "h1"}
    assert refusal(client, "DELETE", "/v1/holds/h1")[0] == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"pod": "other", "pid": 7}', 404),
        (b'{"pod": "web", "pid": 1}', 409),
        (b'{"pod": "web", "pid": "x"}', 400),
        (b"no json", 400),
    ],
)
def test_a_hold_that_cannot_be_made_is_refused(client: Client, engine: FakeEngine, body: bytes, status: int) -> None:
    add_pod(engine.world, make_pod("web"))
    assert refusal(client, "POST", "/v1/holds", body)[0] == status


def test_a_drain_names_what_is_left(client: Client, engine: FakeEngine) -> None:
    engine.left = ("kubernetes.io/empty-dir/uid-web-a",)
    name = "kubernetes.io/empty-dir/uid-web-a"
    assert json.loads(client.post("/v1/drain?timeout=2m")) == {"left": [name], "reasons": [f"{name}: its Pod is held"]}
    assert engine.asked == ["drain 120"]


def test_adopt_accept_and_reload_say_what_was_done(client: Client) -> None:
    assert json.loads(client.post("/v1/adopt")) == {"message": "adopted 3 Pods"}
    assert json.loads(client.post("/v1/manifests/accept")) == {"message": "/manifests is accepted as it is"}
    assert json.loads(client.post("/v1/cluster/accept")) == {"message": "2 Pods go now"}
    assert json.loads(client.post("/v1/plugins/reload")) == {"message": "reloading"}


def test_a_reload_that_is_refused_says_why(client: Client, engine: FakeEngine) -> None:
    engine.refuse_reload = True
    with pytest.raises(Refused, match="the old packages stay in use"):
        client.post("/v1/plugins/reload")


@pytest.mark.parametrize("name", ["plan", "plugins", "orphans", "doctor"])
def test_every_report_is_served(client: Client, name: str) -> None:
    assert get(client, f"/v1/{name}")


def test_unknown_paths_and_wrong_methods_are_named(client: Client) -> None:
    assert refusal(client, "GET", "/v2/pods") == (404, "there is no /v2/pods; GET / lists the paths")
    assert refusal(client, "POST", "/v1/plan") == (405, "/v1/plan takes GET, not POST")


def test_events_are_lines_of_json_after_a_number(client: Client, engine: FakeEngine) -> None:
    for reason in ("One", "Two"):
        engine.events.record(Severity.WARNING, reason, "text", pod="default/web")
    (line,) = client.get("/v1/events?after=1").splitlines()
    event = json.loads(line)
    assert (event["number"], event["reason"], event["severity"]) == (2, "Two", "Warning")
    assert event["at"] == "2027-01-15T08:00:00.000Z"
    assert refusal(client, "GET", "/v1/events?after=x")[0] == 400


def test_events_that_are_followed_come_as_they_happen_until_the_daemon_ends(client: Client, engine: FakeEngine) -> None:
    engine.events.record(Severity.NORMAL, "Before", "text")
    lines = client.follow()
    assert json.loads(next(lines))["reason"] == "Before"
    engine.events.record(Severity.NORMAL, "After", "text")
    assert json.loads(next(lines))["reason"] == "After"
    engine.events.close()
    assert list(lines) == []


def test_a_follower_of_another_execution_gets_its_events_from_the_first(client: Client, engine: FakeEngine) -> None:
    engine.events.record(Severity.NORMAL, "New", "text")
    assert client.get("/v1/events?after=900") == b""
    assert b"New" in client.get("/v1/events?after=900&instance=other")


def test_one_connection_serves_many_requests(client: Client) -> None:
    for _ in range(50):
        client.get("/healthz")
