"""The contract suite: what every volume type promises, as tests that anyone can run against theirs.

    pytest --pyargs volmgr.testing.contract --volmgr-plugin nfs --volmgr-host fake

`--volmgr-plugin` is the entry point, the qualified name, or `module:Class` of a type; `--volmgr-host real` uses this
machine's kernel, as root, in a mount namespace of its own.

A type is tested with its source's default values, or with what the module `contract` of its package offers:

    def samples(top: Path) -> Iterable[object]:
        yield NfsSource(server="localhost", path=f"{top}/export")       # a source, or
        yield Sample(source=EmptyDirSource(medium="HugePages"), pod=…)  # with its Pod, objects, settings …

`top` is an empty directory outside volmgr's root that the samples may name.
"""
