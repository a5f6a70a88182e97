"""gitRepo volumes through a whole node: settings, what `why` says, restarts, and the end of their Pod."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from volmgr.model.schema import SchemaError
from volmgr.plugins import read_settings
from volmgr.report.why import why_lines
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_gitrepo.contract import fake_git
from volmgr_gitrepo.plugin import GitRepo
from volmgr_gitrepo.source import GitRepoSettings

PLUGINS = plugins_of(GitRepo())
NAME = "kubernetes.io/git-repo"


def site(**source: str) -> dict[str, object]:
    return {"name": "data", "gitRepo": {"repository": "https://example.com/site.git", **source}}


def node_of(host: FakeHost) -> TestNode:
    host.programs["setpriv"] = fake_git(host)
    node = TestNode(host, PLUGINS)
    node.sources_ready()
    return node


def test_the_configuration_says_what_is_allowed_by_the_names_of_the_readme() -> None:
    given = {"enabled": True, "protocols": ["https", "http"], "local_below": ["/srv/git"], "clone_seconds": 30}
    assert read_settings(PLUGINS, {NAME: given}) == (
        GitRepoSettings(enabled=True, protocols=("https", "http"), local_below=("/srv/git",), clone_seconds=30.0),
    )
    readme = Path("plugins/gitrepo/README.md").read_text(encoding="utf-8")
    assert [name for name in given if f"| `{name}` |" not in readme] == []


@pytest.mark.parametrize(
    "given", [{"protocols": ["ssh"]}, {"local_below": ["srv"]}, {"enabled": "yes"}, {"enable": True}]
)
def test_a_wrong_setting_is_refused_by_its_place(given: Mapping[str, object]) -> None:
    with pytest.raises(SchemaError, match=f"plugins.{NAME}"):
        read_settings(PLUGINS, {NAME: given})


def test_without_settings_a_pod_waits_and_says_what_to_do() -> None:
    node = node_of(FakeHost())
    node.apply(pod("web", site(), uid="u1"))
    assert not node.is_mounted("web")
    (line,) = (line for line in why_lines(node.world, "web") if "volume data" in line)
    assert "off on this node" in line
    assert "init container" in line


def test_a_clone_is_made_once_and_goes_with_its_pod() -> None:
    host = FakeHost(settings=[GitRepoSettings(enabled=True)])
    node = node_of(host)
    node.apply(pod("web", site(revision="main"), uid="u1", securityContext={"fsGroup": 4711}))
    assert node.is_mounted("web")
    tree = host.paths.volume("u1", NAME, "data") / "site"
    host.put(tree / "written", b"by the pod")
    host.programs.clear()
    host.reboot()
    node.start()
    node.sources_ready()
    assert node.is_mounted("web")
    assert host.content(tree / "written") == b"by the pod"
    node.delete("u1")
    assert [path for path in host.tree() if "u1" in path.parts] == []


def test_a_clone_that_fails_is_tried_again_and_why_says_what_git_said() -> None:
    node = node_of(FakeHost(settings=[GitRepoSettings(enabled=True)]))
    node.apply(pod("web", site(revision="v9"), uid="u1"))
    (line,) = (line for line in why_lines(node.world, "web") if "volume data" in line)
    assert "cannot check v9 out: fatal: invalid reference: v9" in line
    assert "next try at" in line


def test_a_password_in_an_address_is_refused_and_said_nowhere() -> None:
    host = FakeHost(settings=[GitRepoSettings(enabled=True)])
    node = node_of(host)
    node.apply(pod("web", site(repository="https://me:hunter2@example.com/x.git"), uid="u1"))
    said = "\n".join((*why_lines(node.world, "web"), *node.warnings()))
    assert "has credentials in it" in said
    assert "hunter2" not in said
