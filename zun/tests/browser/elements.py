# SPDX-License-Identifier: Apache-2.0
"""One element alone in a page of its own, with data instead of an API. The page has the policy of the real one."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from zun.api.pages import content_security_policy
from zun.tests import http_servers
from zun.tests.browser.page import Page
from zun.ui import files

_SHELL = b"""<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>An element</title>
<link rel="stylesheet" href="page.css"><link rel="icon" href="icon.svg"></head>
<body><main><h1>An element</h1><div id="place"></div></main></body></html>"""

_PUT = """
const [name, data, done] = arguments;
Promise.all([import("/look.js"), import(`/${name.slice(4)}.js`)]).then(([{look}]) => {
    document.adoptedStyleSheets = [look];
    const made = document.createElement(name);
    document.getElementById("place").replaceChildren(made);
    made.data = data;
    window.element = made;
    requestAnimationFrame(() => requestAnimationFrame(() => done(null)));
}, (error) => done(String(error)));
"""


class Elements(Page):
    """A page with one element. ``driver`` and the methods are those of every page."""

    def show(self, name: str, data: Any) -> None:
        """Show the element ``name`` with ``data``, in a page that is loaded afresh."""
        self.open()
        self.driver.set_script_timeout(60)
        assert self.driver.execute_async_script(_PUT, name, data) is None

    def paper(self, scheme: str) -> None:
        """Show the page as it is printed. ``scheme`` of Page shows it on the screen again."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": features})

    def inside(self, text: str, *arguments: Any) -> Any:
        """Return the value of a JavaScript expression. ``root`` is the shadow root, ``element`` the element."""
        return self.script(f"const root = element.shadowRoot; return {text}", *arguments)

    def module(self, text: str, *arguments: Any) -> Any:
        """Return what the body of an async function returns; it may import modules: ``await import("/words.js")``."""
        self.driver.set_script_timeout(60)
        body = f"""const done = arguments[arguments.length - 1];
            (async (...given) => {{ {text} }})(...arguments)
                .then((found) => done({{found}}), (error) => done({{error: `${{error}} ${{error.stack}}`}}));"""
        answer = self.driver.execute_async_script(body, *arguments)
        assert "error" not in answer, answer["error"]
        return answer.get("found")


@contextmanager
def serving() -> Iterator[str]:
    """Serve the packaged files and an empty page. Yields the URL of the page."""
    found: Mapping[str, files.File] = {**files.packaged(), "": files.File(_SHELL, "text/html; charset=utf-8")}

    class Handler(http_servers.Handler):
        def do_GET(self) -> None:
            file = found.get(self.path.lstrip("/"))
            if file is None:
                self.answer(404)
            else:
                policy = content_security_policy(files.PAGE, ())
                self.answer(200, file.content, file.content_type, Content_Security_Policy=policy)

    with http_servers.serving(http_servers.Server(Handler)) as server:
        yield f"{server.url}/"
