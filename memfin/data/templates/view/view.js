// Keys of the page of a dialogue: j and k step through turns, d through those that differ, n and p through dialogues.
"use strict";

const matching = document.querySelectorAll(".exchange.match");
const turns = [...(matching.length ? matching : document.querySelectorAll(".exchange"))];

function current() {
  const middle = innerHeight / 3;
  const target = turns.findIndex((turn) => "#" + turn.id === location.hash);
  if (target >= 0 && turns[target].getBoundingClientRect().bottom > 0) return target;
  return turns.findLastIndex((turn) => turn.getBoundingClientRect().top < middle);
}

function follow(rel) {
  document.querySelector(`a[rel=${rel}]`)?.click();
}

function step(by) {
  show(turns[current() + by], by);
}

function differing() {
  show(turns.slice(current() + 1).find((turn) => turn.classList.contains("diverges")), 1);
}

function show(next, by) {
  if (!next) return follow(by > 0 ? "next" : "prev");
  history.replaceState(null, "", "#" + next.id);
  location.replace("#" + next.id);
  next.focus({ preventScroll: true });
}

const keys = { j: () => step(1), k: () => step(-1), d: differing, n: () => follow("next"), p: () => follow("prev") };
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, textarea, select");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  keys[event.key]?.();
});

const opened = document.querySelector("a[data-open]");
if (opened && !location.hash) location.replace(opened.hash);
