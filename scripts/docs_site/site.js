// The search takes a leading hyphen for "without this word", but readers type options: `--format`.
for (const kind of ["input", "keyup"]) {
  document.addEventListener(kind, ({ target }) => {
    if (target.matches("[data-md-component=search-query]") && /(^|\s)-/.test(target.value)) {
      target.value = target.value.replace(/(^|\s)-+/g, "$1")
    }
  }, true)
}
