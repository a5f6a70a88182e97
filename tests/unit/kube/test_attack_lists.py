"""Answers that look like a list of this node's Pods and are none: no Pod leaves by them, and none comes."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator

import pytest

from tests.unit.kube.memory_api import Document
from tests.unit.kube.pod_bench import PodBench
from volmgr.kube.resources import PODS
from volmgr.sources.changes import Complaints, PodAccepted, PodLeft


@pytest.fixture
def bench() -> Generator[PodBench]:
    made = PodBench()
    yield made
    made.thread.stop()


def nested(depth: int) -> object:
    return json.loads('{"a":' * depth + "1" + "}" * depth)


def no_pods(**changed: object) -> dict[str, object]:
    nothing: list[object] = []
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": nothing} | changed


IMPOSTORS: dict[str, bytes] = {
    "nothing": b"",
    "a captive portal": b"<html><body>please log in</body></html>",
    "a JSON health page": b'{"status": "ok", "metadata": {}, "items": []}',
    "another kind": json.dumps(no_pods(kind="ConfigMapList")).encode(),
    "another version": json.dumps(no_pods(apiVersion="example.com/v1")).encode(),
    "no kind": json.dumps({"metadata": {"resourceVersion": "9"}, "items": []}).encode(),
    "no resourceVersion": json.dumps(no_pods(metadata={})).encode(),
    "a Status": json.dumps(no_pods(kind="Status", status="Success")).encode(),
    "half a list": json.dumps(no_pods()).encode()[:-3],
    "a Table": json.dumps({**no_pods(kind="Table", apiVersion="meta.k8s.io/v1"), "rows": []}).encode(),
    "an object that is nobody": json.dumps(no_pods(items=[{"metadata": {"name": None}}])).encode(),
    "bytes that are no text": json.dumps(no_pods()).encode() + b"\xff",
    "brackets without end": b'{"kind": "PodList", "apiVersion": "v1", "metadata": ' + b'{"a":' * 100_000,
}


@pytest.mark.parametrize("answer", IMPOSTORS.values(), ids=list(IMPOSTORS))
def test_what_is_no_list_of_pods_takes_no_pod_away(bench: PodBench, answer: bytes) -> None:
    bench.run_pod("web")
    bench.source.start()
    bench.read()
    bench.take()
    bench.api.instead = answer
    bench.read()
    assert bench.stands == {"pods/default/web"}
    assert "what is no list" in bench.problem
    bench.api.instead = None
    bench.read()
    assert not bench.problem
    assert not [each for each in bench.told if isinstance(each, PodLeft)]


def test_pods_of_other_nodes_are_not_taken_where_the_field_selector_is_lost(bench: PodBench) -> None:
    bench.api.ignores_selectors = True
    bench.run_pod("web")
    bench.run_pod("foreign", node="n2")
    bench.run_pod("unscheduled", node="")
    bench.source.start()
    bench.read()
    assert bench.stands == {"pods/default/web"}


@pytest.mark.parametrize("uid", ["", "../../etc", "a/b", ".", "..", "x" * 5000, "u\x00", "é"])
def test_a_pod_whose_uid_cannot_be_one_is_refused_and_named(bench: PodBench, uid: str) -> None:
    bench.run_pod("web", uid=uid)
    bench.run_pod("fine")
    bench.source.start()
    bench.read()
    assert [each.pod.uid for each in bench.told if isinstance(each, PodAccepted)] == ["uid-fine"]
    complaint = next(each for each in bench.told if isinstance(each, Complaints))
    assert "metadata.uid" in str(complaint.errors[0])


@pytest.mark.parametrize("name", ["../x", "a/b", "", "x" * 5000, "UPPER", "\x00"])
def test_a_pod_whose_name_cannot_be_one_disturbs_no_other(bench: PodBench, name: str) -> None:
    document = bench.run_pod("web")
    document["metadata"]["name"] = name
    document["metadata"]["uid"] = "odd"
    bench.api.put(PODS.path("default", "odd"), document)
    bench.run_pod("web")
    bench.source.start()
    bench.read()
    assert [each.pod.uid for each in bench.told if isinstance(each, PodAccepted)] == ["uid-web"]


SPOILS: dict[str, Callable[[Document], None]] = {
    "no spec": lambda each: each.update(spec=None),
    "a spec that is a list": lambda each: each.update(spec=[]),
    "a status that is text": lambda each: each.update(status="odd"),
    "statuses that are a mapping": lambda each: each.update(status={"containerStatuses": {"a": 1}}),
    "statuses that are anything": lambda each: each.update(status={"containerStatuses": [None, 3, "x"]}),
    "a container named by a number": lambda each: each.update(
        status={"containerStatuses": [{"name": 7, "state": {"running": {}}}]}
    ),
    "an annotation that is null": lambda each: each["metadata"].update(annotations={"a": None}),
    "annotations that are a list": lambda each: each["metadata"].update(annotations=["a"]),
    "a volume that is null": lambda each: each["spec"].update(volumes=[None]),
    "a node that is a number": lambda each: each["spec"].update(nodeName=7),
    "a field without a bottom": lambda each: each["spec"].update(novelty=nested(900)),
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=list(SPOILS))
def test_one_pod_that_makes_no_sense_keeps_no_other_from_being_read(
    bench: PodBench, spoil: Callable[[Document], None]
) -> None:
    bench.run_pod("web")
    odd = bench.run_pod("odd")
    bench.run_pod("zoo")
    bench.source.start()
    bench.read()
    bench.take()
    spoil(odd)
    bench.api.ignores_selectors = True
    bench.api.objects[PODS.path("default", "odd")] = odd
    bench.run_pod("later")
    bench.read()
    assert {"uid-later"} == {each.pod.uid for each in bench.told if isinstance(each, PodAccepted)} - {"uid-odd"}
    assert not [each for each in bench.told if isinstance(each, PodLeft)]
