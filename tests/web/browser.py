# SPDX-License-Identifier: GPL-2.0-or-later
"""Drives a headless Chromium by its DevTools protocol: opens a page, asks it, takes pictures, collects its errors."""
import base64
import contextlib
import http.client
import json
import os
import shutil
import subprocess
import tempfile
import time

CHROMIUM = "chromium"
START_S, ANSWER_S = 60, 60


def missing():
    """The reason why no browser can be driven here; None when one can."""
    if not shutil.which(CHROMIUM):
        return "chromium is not installed (make setup-all)"
    try:
        import websocket  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import
    except ImportError:
        return "python3-websocket is not installed (make setup-all)"
    return None


class Browser:
    """prefix: words in front of the browser's command that enter a network namespace; inside(): a context in which this
    thread makes sockets there."""

    def __init__(self, url, prefix=(), inside=contextlib.nullcontext, width=1280, height=900):
        import websocket  # pylint: disable=import-outside-toplevel
        self.websocket, self.inside = websocket, inside
        self.directory = tempfile.mkdtemp(prefix="dprd-browser-")
        self.log = open(os.path.join(self.directory, "log"), "wb")  # pylint: disable=consider-using-with
        self.process = subprocess.Popen(
            [*prefix, CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-pings", "--mute-audio",
             "--disable-extensions", "--remote-debugging-port=0", "--remote-allow-origins=*",
             f"--window-size={width},{height}", f"--user-data-dir={self.directory}/profile", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True,
            env={**os.environ, "HOME": self.directory})
        self.number = 0
        self.errors = []
        self.socket = None
        try:
            self._connect()
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.command(f"{domain}.enable")
            self.command("Page.navigate", url=url)
        except BaseException:
            self.close()
            raise

    def _connect(self):
        path = os.path.join(self.directory, "profile/DevToolsActivePort")
        until_s = time.monotonic() + START_S
        while not (os.path.exists(path) and open(path, encoding="ascii").read().count("\n")):  # pylint: disable=consider-using-with
            if self.process.poll() is not None or time.monotonic() > until_s:
                with open(self.log.name, encoding="utf-8", errors="replace") as log:
                    raise AssertionError(f"chromium does not start: {log.read()[-2000:]}")
            time.sleep(0.05)
        with open(path, encoding="ascii") as file:
            port = int(file.readline())
        with self.inside():
            asked = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
            asked.request("GET", "/json/list")
            page = next(target for target in json.load(asked.getresponse()) if target["type"] == "page")
            asked.close()
            self.socket = self.websocket.create_connection(page["webSocketDebuggerUrl"], timeout=ANSWER_S)

    def _note(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(params["args"]))

    def command(self, method, **params):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return message["result"]
            self._note(message)

    def value(self, expression):
        """The value of an expression in the page, which may be a promise."""
        result = self.command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression, seconds=20):
        """Asks until an expression is true; the seconds that it took."""
        began_s = time.monotonic()
        while not self.value(expression):
            if time.monotonic() > began_s + seconds:
                raise AssertionError(f"not within {seconds} s: {expression}; the page: {self.value('document.body.innerText')}")
            time.sleep(0.05)
        return time.monotonic() - began_s

    def look(self, width, height, scheme, mobile=False):
        """Sets the size of the window and the colours that its user prefers."""
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if mobile else 1,
                     mobile=mobile)
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        shot = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def close(self):
        if self.socket:
            self.socket.close()
        if self.process.poll() is None:
            os.killpg(self.process.pid, 15)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)
