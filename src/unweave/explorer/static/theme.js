// A plain script before the first paint, so that the page never flashes in colours the visitor did not choose.
try {
  const kept = localStorage.getItem("unweave-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
} catch {
  // A browser that keeps nothing follows its own colour scheme.
}
