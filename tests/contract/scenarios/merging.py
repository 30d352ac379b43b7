"""Merge rules, redirects, filters and large batches."""

from __future__ import annotations

from tests.contract.steps import Raw, Step, fault, fill, page, refused, series

STEPS = [
    Step("redirect: trailing slash on workspaces", "POST", "/v3/workspaces/", {"id": "ex-{x}"}, status=307),
    Step("redirect: trailing slash peers", "POST", "/v3/workspaces/ex-{x}/peers/", {"id": "a"}, status=307),
    Step(
        "session with config",
        "POST",
        "/v3/workspaces/ex-{x}/sessions",
        {
            "id": "x-{x}",
            "configuration": {"reasoning": {"enabled": False}, "custom_key": {"a": 1}},
            "metadata": {"a": 1, "b": 2},
        },
        status=201,
        expect={
            "id": "x-{x}",
            "metadata": {"a": 1, "b": 2},
            "configuration": {"reasoning": {"enabled": False}, "custom_key": {"a": 1}},
        },
    ),
    Step(
        "session put config (replace or merge?)",
        "PUT",
        "/v3/workspaces/ex-{x}/sessions/x-{x}",
        {"configuration": {"summary": {"enabled": False}}},
        expect={
            "id": "x-{x}",
            "metadata": {"a": 1, "b": 2},
            "configuration": {"reasoning": {"enabled": False}, "custom_key": {"a": 1}, "summary": {"enabled": False}},
        },
    ),
    Step(
        "session put metadata null",
        "PUT",
        "/v3/workspaces/ex-{x}/sessions/x-{x}",
        {"metadata": None},
        expect={
            "id": "x-{x}",
            "metadata": {"a": 1, "b": 2},
            "configuration": {"summary": {"enabled": False}, "reasoning": {"enabled": False}, "custom_key": {"a": 1}},
        },
    ),
    Step(
        "session put metadata {}",
        "PUT",
        "/v3/workspaces/ex-{x}/sessions/x-{x}",
        {"metadata": {}},
        expect={
            "id": "x-{x}",
            "metadata": {},
            "configuration": {"summary": {"enabled": False}, "reasoning": {"enabled": False}, "custom_key": {"a": 1}},
        },
    ),
    Step(
        "session put empty body",
        "PUT",
        "/v3/workspaces/ex-{x}/sessions/x-{x}",
        {},
        expect={
            "id": "x-{x}",
            "metadata": {},
            "configuration": {"summary": {"enabled": False}, "reasoning": {"enabled": False}, "custom_key": {"a": 1}},
        },
    ),
    Step(
        "session put no body",
        "PUT",
        "/v3/workspaces/ex-{x}/sessions/x-{x}",
        status=422,
        expect=fault("missing", "body"),
    ),
    Step(
        "session configuration unknown nested key",
        "POST",
        "/v3/workspaces/ex-{x}/sessions",
        {"id": "x-{x}", "configuration": {"reasoning": {"enabled": False, "foo": 1}}},
        expect={
            "id": "x-{x}",
            "metadata": {},
            "configuration": {"summary": {"enabled": False}, "reasoning": {"enabled": False}, "custom_key": {"a": 1}},
        },
    ),
    Step(
        "session config wrong type",
        "POST",
        "/v3/workspaces/ex-{x}/sessions",
        {"id": "x-{x}", "configuration": {"reasoning": {"enabled": "maybe"}}},
        status=422,
        expect=fault("bool_parsing", "body", "configuration", "reasoning", "enabled"),
    ),
    Step(
        "workspace put config",
        "PUT",
        "/v3/workspaces/ex-{x}",
        {"configuration": {"dream": {"enabled": False}}},
        expect={"id": "ex-{x}", "metadata": {}, "configuration": {"dream": {"enabled": False}}},
    ),
    Step(
        "workspace put config 2",
        "PUT",
        "/v3/workspaces/ex-{x}",
        {"configuration": {"summary": {"enabled": False}}},
        expect={
            "id": "ex-{x}",
            "metadata": {},
            "configuration": {"dream": {"enabled": False}, "summary": {"enabled": False}},
        },
    ),
    Step(
        "peer config free-form",
        "POST",
        "/v3/workspaces/ex-{x}/peers",
        {"id": "pp", "configuration": {"observe_me": False, "anything": {"x": 1}}},
        status=201,
        expect={"id": "pp", "metadata": {}, "configuration": {"observe_me": False, "anything": {"x": 1}}},
    ),
    Step(
        "peer put config replaces",
        "PUT",
        "/v3/workspaces/ex-{x}/peers/pp",
        {"configuration": {"b": 2}},
        expect={"id": "pp", "metadata": {}, "configuration": {"b": 2}},
    ),
    Step(
        "session peer config extra key ignored",
        "POST",
        "/v3/workspaces/ex-{x}/sessions/x-{x}/peers",
        {"pp": {"observe_me": True, "zzz": 1}},
        expect={
            "id": "x-{x}",
            "metadata": {},
            "configuration": {"summary": {"enabled": False}, "reasoning": {"enabled": False}, "custom_key": {"a": 1}},
        },
    ),
    Step(
        "session peer config null value",
        "POST",
        "/v3/workspaces/ex-{x}/sessions/x-{x}/peers",
        {"qq": None},
        status=422,
        expect=fault("model_attributes_type", "body", "qq"),
    ),
    Step(
        "peers map empty",
        "POST",
        "/v3/workspaces/ex-{x}/sessions/x-{x}/peers",
        {},
        expect={
            "id": "x-{x}",
            "metadata": {},
            "configuration": {"summary": {"enabled": False}, "reasoning": {"enabled": False}, "custom_key": {"a": 1}},
        },
    ),
    Step(
        "session peers set empty",
        "PUT",
        "/v3/workspaces/ex-{x}/sessions/x-{x}/peers",
        {},
        expect={
            "id": "x-{x}",
            "metadata": {},
            "configuration": {"summary": {"enabled": False}, "reasoning": {"enabled": False}, "custom_key": {"a": 1}},
        },
    ),
    Step("peers after set empty", "GET", "/v3/workspaces/ex-{x}/sessions/x-{x}/peers", expect=page([])),
    Step(
        "delete peers w/ unknown session",
        "DELETE",
        "/v3/workspaces/ex-{x}/sessions/ghost/peers",
        ["pp"],
        status=404,
        expect=refused("Session ghost not found in workspace ex-{x}"),
    ),
    Step(
        "message configuration reasoning off",
        "POST",
        "/v3/workspaces/ex-{x}/sessions/x-{x}/messages",
        {"messages": [{"peer_id": "pp", "content": "hello there", "configuration": {"reasoning": {"enabled": False}}}]},
        status=201,
        expect=[{"id": "{id1}", "content": "hello there", "peer_id": "pp"}],
    ),
    Step(
        "messages filter created_at",
        "POST",
        "/v3/workspaces/ex-{x}/sessions/x-{x}/messages/list",
        {"filters": {"created_at": {"gte": "2020-01-01"}}},
        expect=page([{"id": "{id1}", "content": "hello there", "peer_id": "pp"}]),
    ),
    Step(
        "messages filter metadata",
        "POST",
        "/v3/workspaces/ex-{x}/sessions/x-{x}/messages/list",
        {"filters": {"metadata": {"k": 1}}},
        expect=page([]),
    ),
    Step(
        "messages filter AND/OR/NOT",
        "POST",
        "/v3/workspaces/ex-{x}/sessions/x-{x}/messages/list",
        {"filters": {"AND": [{"peer_id": "pp"}, {"NOT": [{"content": {"icontains": "zzz"}}]}]}},
        status=422,
        expect=refused("Column 'content' is not allowed to be filtered on or does not exist on Message"),
    ),
    Step(
        "filters bad operator",
        "POST",
        "/v3/workspaces/ex-{x}/sessions/x-{x}/messages/list",
        {"filters": {"created_at": {"zz": "2020"}}},
        status=422,
        expect=refused(
            "Invalid filter for column 'created_at': unsupported operator(s) ['zz']. Expected one of "
            "['contains', 'gt', 'gte', 'icontains', 'in', 'lt', 'lte', 'ne'] or a scalar value."
        ),
    ),
    Step(
        "filters not a dict",
        "POST",
        "/v3/workspaces/ex-{x}/sessions/x-{x}/messages/list",
        {"filters": [1]},
        status=422,
        expect=fault("dict_type", "body", "filters"),
    ),
    Step(
        "100x25000 chars",
        "POST",
        "/v3/workspaces/ex-{x}/sessions/x-{x}big/messages",
        {
            "messages": series(
                {"peer_id": "pp", "content": fill("tok ", 25000), "configuration": {"reasoning": {"enabled": False}}},
                100,
            )
        },
        status=201,
    ),
    Step("context over 100k tokens default", "GET", "/v3/workspaces/ex-{x}/sessions/x-{x}big/context"),
    Step(
        "search right after write (keyword)",
        "POST",
        "/v3/workspaces/ex-{x}/search",
        {"query": "hello there"},
        expect=[{"id": "{id1}", "content": "hello there", "peer_id": "pp"}],
    ),
    Step(
        "upload txt",
        "POST",
        "/v3/workspaces/ex-{x}/sessions/x-{x}/messages/upload",
        Raw(
            '--X\r\nContent-Disposition: form-data; name="peer_id"\r\n\r\npp\r\n'
            '--X\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n'
            "Content-Type: text/plain\r\n\r\nhello file\r\n--X--\r\n",
            "multipart/form-data; boundary=X",
        ),
        status=201,
        expect=[{"id": "{id26}", "content": "hello file", "peer_id": "pp"}],
    ),
]
