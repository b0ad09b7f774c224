// Keys, marks and unsaved changes of the page of a turn; the page of agreement is loaded again.
"use strict";

if (document.querySelector("[data-live]")) setTimeout(() => location.reload(), 10000);

const form = document.querySelector("form.questions");
if (form) labelling();

function labelling() {
  const reply = document.getElementById("reply");
  const field = form.elements.marks;
  const labels = form.querySelector(".marking select");
  const list = form.querySelector(".marks");
  const note = form.elements.note;
  let marks = JSON.parse(field.value);
  let changed = false;
  let sent = false;

  // Characters of the reply: offsets count code points, an invisible one is spelt out in a span of its own.
  function offset(node, at) {
    const element = node.nodeType === Node.TEXT_NODE ? node.parentElement : node;
    const span = element.closest("[data-at]");
    if (!span || !reply.contains(span)) {
      const before = document.createRange();
      before.selectNodeContents(reply);
      before.setEnd(node, at);
      const spans = [...before.cloneContents().querySelectorAll("[data-at]")];
      return spans.length ? end(spans[spans.length - 1]) : 0;
    }
    if ("spelt" in span.dataset) return Number(span.dataset.at) + (at > 0 ? 1 : 0);
    return Number(span.dataset.at) + [...span.textContent.slice(0, at)].length;
  }
  function end(span) {
    return Number(span.dataset.at) + ("spelt" in span.dataset ? 1 : [...span.textContent].length);
  }
  function selected() {
    const selection = getSelection();
    if (!selection.rangeCount || selection.isCollapsed) return null;
    const range = selection.getRangeAt(0);
    const whole = document.createRange();
    whole.selectNodeContents(reply);
    if (!range.intersectsNode(reply)) return null;
    if (range.compareBoundaryPoints(Range.START_TO_START, whole) < 0) range.setStart(reply, 0);
    if (range.compareBoundaryPoints(Range.END_TO_END, whole) > 0) range.setEnd(reply, reply.childNodes.length);
    const words = { start: offset(range.startContainer, range.startOffset), end: offset(range.endContainer, range.endOffset) };
    return words.start < words.end ? words : null;
  }
  function mark(label) {
    const words = selected();
    if (!words || !label) return false;
    labels.value = label;
    const same = (each) => each.start === words.start && each.end === words.end && each.label === label;
    if (!marks.some(same)) marks.push({ ...words, label });
    getSelection().removeAllRanges();
    changed = true;
    show();
    return true;
  }
  function range(words) {
    const spans = [...reply.querySelectorAll("[data-at]")];
    const place = (at, last) => {
      const span = last ? spans.find((each) => at <= end(each)) : spans.find((each) => at < end(each));
      if ("spelt" in span.dataset) return last ? [span, span.childNodes.length] : [span, 0];
      return [span.firstChild, [...span.textContent].slice(0, at - Number(span.dataset.at)).join("").length];
    };
    const found = document.createRange();
    found.setStart(...place(words.start, false));
    found.setEnd(...place(words.end, true));
    return found;
  }
  function show() {
    field.value = JSON.stringify(marks);
    const ranges = marks.map(range);
    if (globalThis.Highlight) CSS.highlights.set("marks", new Highlight(...ranges));
    list.replaceChildren(...marks.map((each, place) => {
      const item = document.createElement("li");
      const name = [...labels.options].find((option) => option.value === each.label)?.text ?? each.label;
      const remove = document.createElement("button");
      remove.type = "button";
      remove.textContent = "×";
      remove.ariaLabel = list.dataset.remove;
      remove.onclick = () => { marks.splice(place, 1); changed = true; show(); };
      item.append(`${name}: ${ranges[place].toString().slice(0, 40)} `, remove);
      return item;
    }));
  }

  // Boxes are set and cleared; of a pair yes, no and neither follow each other. "None" excludes the others.
  function settle(input) {
    changed = true;
    if (input.type !== "checkbox" || !input.checked) return;
    for (const each of form.querySelectorAll(`input[name="${input.name}"]`)) {
      if ((input.value === "none") !== (each.value === "none")) each.checked = false;
    }
  }
  function press(target, yes) {
    if (target.matches("input")) {
      target.checked = yes || !target.checked;
      return settle(target);
    }
    const [on, off] = target.querySelectorAll("input");
    const next = yes ? on : on.checked ? off : off.checked ? null : on;
    on.checked = off.checked = false;
    if (next) next.checked = true;
    changed = true;
  }

  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("textarea, select, input:not([type=checkbox], [type=radio])");
    if (event.key === "Enter" && (event.ctrlKey || !typing) && !event.target.matches("button, a, summary")) {
      event.preventDefault();
      return form.requestSubmit();
    }
    if (event.key === "Escape") return document.activeElement.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = [...form.querySelectorAll("[data-key]")].find((each) => each.dataset.key === event.key);
    if (target) {
      const marked = target.dataset.label && mark(target.dataset.label);
      if (target.dataset.label) labels.value = target.dataset.label;
      press(target, marked);
    } else if (event.key === "m") mark(labels.value);
    else if (event.key === "/") note.focus();
    else if (event.key === "?") document.getElementById("keys").open ^= true;
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);
  form.addEventListener("change", (event) => settle(event.target));
  form.addEventListener("input", () => { changed = true; });
  form.addEventListener("submit", (event) => {
    if (sent) event.preventDefault();
    sent = true;
  });
  addEventListener("pageshow", () => { sent = false; });
  addEventListener("beforeunload", (event) => {
    if (changed && !sent) event.preventDefault();
  });
  form.querySelector(".marking").hidden = false;
  show();
}
