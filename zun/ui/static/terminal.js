// SPDX-License-Identifier: Apache-2.0
// The terminal: a frame of its own, because xterm.js needs styles that the page's policy forbids. The page tells the
// address of the websocket; the frame tells its size, and the end of the session.

import {Terminal} from "./vendor/xterm.js";
import {FitAddon} from "./vendor/xterm-addon-fit.js";

const NORMAL = 1000;

function tell(message) {
    window.parent.postMessage(message, location.origin);
}

/** Return why a session ended, in a sentence. */
export function ending({code, reason}) {
    if (code === NORMAL) {
        return reason ? `The session ended: ${reason}.` : "The session ended.";
    }
    return `The connection was closed: ${reason || `code ${code}`}.`;
}

function open(url) {
    const terminal = new Terminal({
        cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
        fontFamily: 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace',
        fontSize: 14,
        screenReaderMode: true,
        theme: {background: "#14181d", foreground: "#e7eaee", cursor: "#72b9ee"},
    });
    const fit = new FitAddon();
    const socket = new WebSocket(url, ["binary"]);
    socket.binaryType = "arraybuffer";
    terminal.loadAddon(fit);
    terminal.open(document.getElementById("terminal"));
    terminal.onResize(({cols: columns, rows}) => tell({columns, rows}));
    terminal.onData((text) => send(new TextEncoder().encode(text)));
    terminal.onBinary((text) => send(Uint8Array.from(text, (each) => each.charCodeAt(0))));
    socket.addEventListener("open", () => {
        fit.fit();
        tell({columns: terminal.cols, rows: terminal.rows});
        terminal.focus();
    });
    socket.addEventListener("message", ({data}) =>
        terminal.write(typeof data === "string" ? data : new Uint8Array(data)),
    );
    socket.addEventListener("close", (event) => tell({ended: ending(event)}));
    new ResizeObserver(() => fit.fit()).observe(document.body);

    function send(bytes) {
        if (socket.readyState === WebSocket.OPEN) {
            socket.send(bytes);
        }
    }
}

window.addEventListener(
    "message",
    ({source, origin, data}) => {
        if (source === window.parent && origin === location.origin) {
            open(data.url);
        }
    },
    {once: true},
);
