"""What a page really plays: every sample that reaches the output of its AudioContext, in the order of the
context's own clock."""

import numpy as np
from browsing import Person, Served, until
from fastapi.responses import Response
from playwright.sync_api import Browser

WORKLET = """
registerProcessor("tap", class extends AudioWorkletProcessor {
  process([[samples]]) { this.port.postMessage(samples ? samples.slice() : new Float32Array(128)); return true; }
});
"""
INIT = """
const connect = AudioNode.prototype.connect;
AudioNode.prototype.connect = function (to, ...more) {
  if (to === this.context.destination && this.context.tapped) connect.call(this, this.context.tapped);
  return connect.call(this, to, ...more);
};
window.recorded = [];
const Real = AudioContext;
AudioContext = class extends Real {
  constructor(options) {
    super(options);
    if (!options) return;  // it only asks for the rate of the device
    const tapped = this.createGain(), silent = this.createGain();
    silent.gain.value = 0;
    this.audioWorklet.addModule("/tap.js").then(() => {
      const tap = new AudioWorkletNode(this, "tap", { channelCount: 1, channelCountMode: "explicit" });
      tap.port.onmessage = ({ data }) => { recorded.push(data); };
      tapped.connect(tap).connect(silent);
      connect.call(silent, this.destination);
      this.tapped = tapped;
      document.documentElement.dataset.tapped = "yes";
    });
  }
};
"""


def tapped(browser: Browser, server: Served) -> Person:
    """A person whose page is recorded from the second play on; the first one makes the context."""
    # the page's security policy lets nothing in but what its own server sends
    server.site.add_api_route("/tap.js", lambda: Response(WORKLET, media_type="text/javascript"))
    context = browser.new_context()
    context.add_init_script(INIT)
    return Person(context, server.url)


def record(person: Person) -> None:
    """From now on."""
    until(person.page, "document.documentElement.dataset.tapped === 'yes'")
    person.page.evaluate("recorded.length = 0")


def recorded(person: Person) -> np.ndarray:
    """In steps of a 16-bit file, from the first sample that is not silent to the last."""
    person.page.wait_for_timeout(300)  # what was played last is on its way from the thread of the sound
    y = np.array(person.page.evaluate("recorded.flatMap((part) => [...part])")) * 32768
    sounding = np.flatnonzero(y)
    return y[sounding[0] : sounding[-1] + 1]
