'use strict';
// Shows the rows whose metric holds all typed words, and opens the parts of the page that they are in.
const box = document.getElementById('find');
const rows = [...document.querySelectorAll('tr[data-find]')];
const folds = [...document.querySelectorAll('main details')];
const blocks = [...document.querySelectorAll('main section, main .scroll, main h3')];
let opened = null;
box.closest('form').hidden = false;
function find() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  const finding = words.length > 0;
  if (finding && !opened) opened = folds.map((fold) => fold.open);
  document.body.classList.toggle('finding', finding);
  let shown = 0;
  for (const row of rows) {
    row.hidden = finding && !words.every((word) => row.dataset.find.toLowerCase().includes(word));
    shown += row.hidden ? 0 : 1;
  }
  const holds = (part) => !finding || part.querySelector('tr[data-find]:not([hidden])') !== null;
  folds.forEach((fold, place) => {
    fold.hidden = !holds(fold);
    if (finding) fold.open = !fold.hidden;
    else if (opened) fold.open = opened[place];
  });
  for (const block of blocks) block.hidden = block.matches('h3') ? finding : !holds(block);
  if (!finding) opened = null;
  document.getElementById('found').value = finding ? shown + (shown === 1 ? ' row' : ' rows') : '';
}
box.addEventListener('input', find);
box.closest('form').addEventListener('submit', (event) => event.preventDefault());
