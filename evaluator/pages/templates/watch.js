"use strict";
// Keeps the progress of a running experiment up to date; loads the page again when it has ended.
const box = document.getElementById("progress");
async function refresh() {
  try {
    const answer = await fetch(box.dataset.watch);
    if (answer.ok) {
      const text = await answer.text();
      if (!text.includes('class="state running"')) {
        location.reload();
        return;
      }
      if (!box.contains(document.activeElement)) {
        box.innerHTML = text;
      }
    }
  } catch {
    // The service is away for a moment: the next attempt says.
  }
  setTimeout(refresh, 2000);
}
setTimeout(refresh, 2000);
