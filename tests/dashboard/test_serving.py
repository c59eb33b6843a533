"""Who may read the page, and what is refused."""

from __future__ import annotations

import http.client
import re
import socket
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from cli.cli_kit import Cli, Lake
from dashboard.dashboard_kit import get
from latecomer.errors import MachineError
from latecomer.observe.dashboard.page_server import PAGE, POLICY, TOKEN, Dashboard
from latecomer.observe.server import LONGEST

SECRET = "s3cret-of-the-dashboard"


def test_the_page_asks_no_other_host_for_anything(served: Dashboard) -> None:
    got = get(served.url)
    assert (got.status, got.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    named = set(re.findall(r"https?://[^\"'\s`)]+", got.text))
    assert named == {"http://www.w3.org/2000/svg"}, "the name of SVG, which nobody fetches"
    assert not re.search(r"(src|href)=\"(?!#)", got.text)
    assert got.headers["Content-Security-Policy"] == POLICY
    assert "default-src 'none'" in POLICY
    assert "unsafe" not in POLICY


def test_the_policy_lets_its_own_script_and_style_run() -> None:
    for name in ("script", "style"):
        (inside,) = re.findall(f"<{name}>(.*?)</{name}>", PAGE.decode(), re.DOTALL)
        assert f"'sha256-{b64encode(sha256(inside.encode()).digest()).decode()}'" in POLICY


def test_the_script_never_makes_markup_of_text() -> None:
    script = PAGE.decode()
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert way not in script


def test_an_answer_that_has_not_changed_is_not_sent_again(served: Dashboard) -> None:
    url = f"{served.url}api/0/windows"
    tag = get(url).headers["ETag"]
    again = get(url, {"If-None-Match": tag})
    assert (again.status, again.text) == (304, "")
    assert get(url, {"If-None-Match": '"other"'}).status == 200


def test_a_web_page_with_a_name_of_its_own_reads_nothing(served: Dashboard) -> None:
    assert get(f"{served.url}api/0/now", {"Host": "evil.example"}).status == 421
    assert get(f"{served.url}api/0/now", {"Sec-Fetch-Site": "cross-site"}).status == 403


def test_a_token_lets_in(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, SECRET)
    with Dashboard([lake.pipeline], "0.0.0.0", 0) as served:
        url = served.url.replace("0.0.0.0", "127.0.0.1")
        page = get(url)
        assert page.status == 200, "the page holds nothing but what asks for the token"
        assert "amul" not in page.text
        assert "upi" not in page.text
        for path in ("api/pipelines", "api/0/now", "api/0/explain"):
            assert get(url + path).status == 401
            assert get(url + path, {"Authorization": "Bearer wrong"}).status == 401
        assert get(f"{url}api/0/now", {"Authorization": f"Bearer {SECRET}"}).status == 200


def test_elsewhere_there_must_be_a_token(lake: Lake, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    with pytest.raises(MachineError, match=f"'0.0.0.0' is not loopback; set {TOKEN}"):
        Dashboard([lake.pipeline], "0.0.0.0", 0)
    said = cli("dashboard", lake.file, "--listen", "0.0.0.0:0")
    assert (said.status, "or write --listen PORT" in said.err) == (1, True)


@pytest.mark.parametrize("listen", ["", "port", "70000", "1:2:3"])
def test_what_is_no_address(listen: str, cli: Cli, lake: Lake) -> None:
    said = cli("dashboard", lake.file, f"--listen={listen}")
    assert said.status == 2
    assert "is not a port\n    fix: write a port such as 9465" in said.err


def test_a_port_in_use(cli: Cli, lake: Lake) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = cli("dashboard", lake.file, f"--listen={taken.getsockname()[1]}")
    assert said.status == 1
    assert "is in use by another program; stop it, or give another port with --listen" in said.err


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/../../etc/passwd",
        "/api/1/now",
        "/api/-1/now",
        "/api/00/now",
        "/api/0/now/..",
        "/api/0/nothing",
        "/api/0/__class__",
        "/api/99999999999999999999/now",
        "/api/0/%6eow",
        "/pipeline.yaml",
    ],
)
def test_there_is_nothing_beside_the_page(served: Dashboard, path: str) -> None:
    assert raw(served, path) == 404


@pytest.mark.parametrize(
    ("route", "asked", "reason"),
    [
        ("windows", {"output": "nothing"}, "is none of this pipeline; write one of minute_totals"),
        ("windows", {"output": "../../events"}, "is none of this pipeline"),
        ("windows", {"window": "yesterday"}, "is not a moment"),
        ("windows", {"window": "99999-01-01"}, "is not a moment"),
        ("windows", {"key": "{"}, "is not JSON"),
        ("windows", {"key": "[" * 1000}, "is not JSON"),
        ("windows", {"key": "[1]"}, "is not a key"),
        ("windows", {"key": '{"merchant": 1}'}, "is not a key"),
        ("windows", {"key": '{"x\\" or true": "1"}'}, "the output has no such key column"),
        ("windows", {"most": "-1"}, "is not such a number"),
        ("windows", {"most": "100000"}, "is not such a number"),
        ("windows", {"skip": "٣"}, "is not such a number"),
        ("windows", {"most": "1", "sql": "drop"}, "is not known here"),
        ("now", {"output": "minute_totals"}, "is not known here; write none"),
        ("fate", {"fate": "lost"}, "is not a fate"),
        ("fate", {"fate": "on_time", "batch": "1 or 1=1"}, "is not such a number"),
        ("fate", {"fate": "on_time", "day": "2026-13-01"}, "is not a day"),
        ("fate", {"fate": "on_time", "day": "9999-12-31"}, "is not a day"),
        ("explain", {}, "window '' is needed"),
        ("explain", {"window": "1999-01-01", "key": '{"merchant": "nobody"}'}, ""),
        ("windows", {"window": "2026-04-25\0"}, "holds a NUL"),
    ],
)
def test_wrong_questions_are_refused_in_words(
    served: Dashboard, route: str, asked: dict[str, str], reason: str
) -> None:
    got = get(f"{served.url}api/0/{route}", **asked)
    assert got.status == 400, got.text
    assert reason in got.json["error"]
    assert "Traceback" not in got.text


def test_huge_and_broken_requests(served: Dashboard) -> None:
    assert raw(served, "/api/0/windows?key=" + "x" * LONGEST) == 414
    assert raw(served, "/api/0/windows?" + "&".join(f"a{n}=1" for n in range(50))) == 400
    assert raw(served, "/api/0/windows?output=%ff") == 400
    assert raw(served, "/api/0/now", "POST") == 501
    assert raw(served, "/api/0/now", "DELETE") == 501
    assert raw(served, "/api/0/now", "HEAD") == 200
    assert raw(served, "/healthz") == 200, "it still answers"


def test_several_pipelines_and_what_they_are(lake: Lake, tmp_path: Path) -> None:
    with Dashboard([lake.pipeline, lake.pipeline], "127.0.0.1", 0) as served:
        listed = get(f"{served.url}api/pipelines").json
        assert [each["name"] for each in listed] == ["upi", "upi"]
        assert listed[0]["outputs"]["minute_totals"]["by"] == ["merchant"]
        assert get(f"{served.url}api/1/now").status == 200


def raw(served: Dashboard, path: str, method: str = "GET") -> int:
    """The status of a request whose path nobody has tidied up."""
    host, port = served.url.removeprefix("http://").strip("/").split(":")
    line = http.client.HTTPConnection(host, int(port), timeout=30)
    try:
        line.putrequest(method, path, skip_accept_encoding=True)
        line.endheaders()
        return line.getresponse().status
    finally:
        line.close()
