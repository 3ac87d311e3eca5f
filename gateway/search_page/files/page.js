"use strict";
// Notes which of two lists is preferred, in this browser's localStorage. Sends nothing; without it the page searches.
(() => {
  const STORED = "retrieval-stack.preferences";
  const KEYS_OFF = "retrieval-stack.keys-off";
  const SIDES = { 1: "left", ArrowLeft: "left", 2: "right", ArrowRight: "right", 0: "same" };
  const at = (id) => document.getElementById(id);
  const notes = at("notes");
  const preference = at("preference");
  const compared = preference && JSON.parse(preference.dataset.compared);

  const read = () => JSON.parse(localStorage.getItem(STORED) || "[]");
  const write = (records) => localStorage.setItem(STORED, JSON.stringify(records));
  const about = (one) => JSON.stringify([one.generation, one.query, one.left, one.right, one.top, one.seed]);
  const ofThisPage = (records) => records.find((one) => about(one) === about(compared));

  const winner = (one) => (one.preferred === "same" ? "no difference" : one[one.preferred]);
  const wordOf = (one) => (one.preferred === "same" ? "no difference" : `${one.preferred} (${winner(one)})`);

  // The tally of the pair on display, once its sides are known; otherwise only how many there are.
  function tally(records) {
    const noted = `${records.length || "None"} noted`;
    if (!records.length || !compared || (compared.blind && !ofThisPage(records))) return `${noted}.`;
    const pair = [compared.left, compared.right].sort();
    const ofPair = records.filter(
      (one) => one.collection === compared.collection && [one.left, one.right].sort().join() === pair.join()
    );
    const counted = [...new Set([...pair, "no difference"])].map(
      (name) => `${name} ${ofPair.filter((one) => winner(one) === name).length}`
    );
    return `${noted}. These two on ${compared.collection}: ${counted.join(", ")}.`;
  }

  function show() {
    const records = read();
    notes.hidden = !records.length && !compared;
    at("kept").hidden = !records.length;
    at("tally").textContent = tally(records);
    if (!compared) return;
    const own = ofThisPage(records);
    for (const button of preference.querySelectorAll("[data-preferred]")) {
      button.setAttribute("aria-pressed", String(Boolean(own) && button.dataset.preferred === own.preferred));
      // A blind preference stands: after it the names are known.
      button.setAttribute("aria-disabled", String(Boolean(own) && compared.blind));
    }
    at("noted").textContent = own ? `Noted: ${wordOf(own)}.` : "";
    if (own) for (const one of document.querySelectorAll(".revealed")) one.hidden = false;
  }

  function note(preferred) {
    const records = read();
    const own = ofThisPage(records);
    if (own && compared.blind) return;
    const others = records.filter((one) => one !== own);
    try {
      write([...others, { ...compared, preferred, time: new Date().toISOString() }]);
    } catch (error) {
      at("noted").textContent = `Not noted: ${error.message}`;
      return;
    }
    show();
  }

  function onKey(event) {
    const side = SIDES[event.key];
    const typing = event.target instanceof Element && event.target.closest("input, select, textarea");
    if (!side || typing || event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (!at("keys").checked) return;
    event.preventDefault();
    note(side);
  }

  function download() {
    const lines = read().map((one) => `${JSON.stringify(one)}\n`);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(lines, { type: "application/jsonl" }));
    link.download = "preferences.jsonl";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  function forget() {
    if (!window.confirm("Forget every preference that is noted in this browser?")) return;
    localStorage.removeItem(STORED);
    show();
  }

  try {
    show();
  } catch (error) {
    notes.hidden = false;
    const said = `Preferences cannot be noted in this browser: ${error.message}`;
    notes.replaceChildren(at("notes-title"), document.createTextNode(said));
    return;
  }
  at("download").addEventListener("click", download);
  at("forget").addEventListener("click", forget);
  if (!compared) return;
  preference.hidden = false;
  for (const button of preference.querySelectorAll("[data-preferred]")) {
    button.addEventListener("click", () => note(button.dataset.preferred));
  }
  at("keys").checked = !localStorage.getItem(KEYS_OFF);
  at("keys").addEventListener("change", (event) => {
    if (event.target.checked) localStorage.removeItem(KEYS_OFF);
    else localStorage.setItem(KEYS_OFF, "1");
  });
  document.addEventListener("keydown", onKey);
  // Another tab noted something.
  window.addEventListener("storage", (event) => event.key === STORED && show());
})();
