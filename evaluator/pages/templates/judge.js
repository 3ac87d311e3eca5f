"use strict";
// Presses the buttons of a pair by key: its grade, s or u. Without it the buttons work all the same.
(() => {
  const KEYS_OFF = "evaluator.judging.keys-off";
  const keys = document.getElementById("keys");
  const buttons = new Map([...document.querySelectorAll("button[data-key]")].map((one) => [one.dataset.key, one]));
  let sent = false;

  function wanted() {
    try {
      return !localStorage.getItem(KEYS_OFF);
    } catch {
      return true; // nothing is kept in this browser
    }
  }

  function keep() {
    try {
      if (keys.checked) localStorage.removeItem(KEYS_OFF);
      else localStorage.setItem(KEYS_OFF, "1");
    } catch {
      // The choice holds for this page.
    }
  }

  document.addEventListener("keydown", (event) => {
    const button = buttons.get(event.key.toLowerCase());
    const typing = event.target instanceof Element && event.target.closest("input:not([type=checkbox]), textarea, select");
    if (!button || typing || event.repeat || event.ctrlKey || event.metaKey || event.altKey || !keys.checked) return;
    event.preventDefault();
    if (!sent) button.click();
  });
  // A second key before the next pair is there would grade this one again.
  document.querySelector("form.grades").addEventListener("submit", () => (sent = true));
  window.addEventListener("pageshow", () => (sent = false));
  keys.checked = wanted();
  keys.closest("label").hidden = false;
  keys.addEventListener("change", keep);
})();
