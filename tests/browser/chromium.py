# chromium.py: drives a headless Chromium through its debugging pipe, with Python's own library only.
#
#   with Page(html_file) as page:
#       page.evaluate("document.title")
#
# Messages are JSON, each ended by a NUL; the browser reads them from descriptor 3 and writes to 4.
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find():
    """The browser, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Page:
    def __init__(self, path=None, width=1400, height=850, dark=False):
        self.problems, self.requests, self.number = [], [], 0
        self.folder = tempfile.mkdtemp(prefix="gridsmith-browser-")
        theirs_in, self.ours_out = os.pipe()
        self.ours_in, theirs_out = os.pipe()

        # What the shell does with 3<&a 4>&b. Both may already be 3 or 4.
        def connect():
            first, second = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(first, 3)
            os.dup2(second, 4)

        words = [find(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                 "--no-first-run", "--disable-extensions", "--disable-background-networking", "--mute-audio",
                 f"--user-data-dir={self.folder}", f"--window-size={width},{height}", "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, preexec_fn=connect, close_fds=False, start_new_session=True)
        os.close(theirs_in)
        os.close(theirs_out)
        self.rest = b""
        self.session = None
        self.is_measuring = False
        try:
            self.open(path, width, height, dark)
        except Exception:
            self.__exit__()
            raise

    def open(self, path, width, height, dark):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Page", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        if path:
            self.go(path)

    def go(self, path):
        """Opens a file, and waits until it is drawn or says why not."""
        self.problems, self.requests = [], []
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        self.wait_for("Boolean(window.gridsmith && (gridsmith.state.isReady || document.querySelector('#message.wrong')))")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(20)
        except Exception:  # it hangs or is gone
            os.killpg(self.process.pid, 9)
            self.process.wait()
        os.close(self.ours_in)
        os.close(self.ours_out)
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.rest:
            got = os.read(self.ours_in, 1 << 20)
            if not got:
                raise RuntimeError("the browser ended")
            self.rest += got
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def note(self, message):
        """Keeps what a page must not do: errors on the console, and requests."""
        method, facts = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(facts["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        elif method == "Runtime.consoleAPICalled" and facts["type"] in ("error", "warning", "assert"):
            self.problems.append("console: " + str(facts["args"][:1]))
        elif method == "Log.entryAdded" and facts["entry"]["level"] in ("error", "warning"):
            if "willReadFrequently" not in facts["entry"]["text"]:  # the tests do that, not the page
                self.problems.append("log: " + facts["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])
        elif method in ("Page.javascriptDialogOpening",):
            self.problems.append("a dialog: " + facts["message"])

    def call(self, method, **facts):
        self.number += 1
        message = {"id": self.number, "method": method, "params": facts}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.ours_out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(method + ": " + answer["error"]["message"])
                return answer["result"]
            self.note(answer)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        return answer["result"].get("value")

    def wait_for(self, expression, seconds=60):
        until = time.monotonic() + seconds
        while not self.evaluate(expression):
            if time.monotonic() > until:
                raise RuntimeError("never true: " + expression)
            time.sleep(0.02)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def key(self, key):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key if len(key) == 1 else "")
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def frame(self):
        """Waits until two frames were drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def paper(self):
        """The page as PDF."""
        return base64.b64decode(self.call("Page.printToPDF", landscape=True, printBackground=True)["data"])

    def processor_seconds(self):
        """What the main thread of the page has used of a processor so far."""
        if not self.is_measuring:
            self.call("Performance.enable", timeDomain="threadTicks")
            self.is_measuring = True
        metrics = {one["name"]: one["value"] for one in self.call("Performance.getMetrics")["metrics"]}
        return metrics["TaskDuration"]

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
