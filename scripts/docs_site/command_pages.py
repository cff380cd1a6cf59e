"""The reference of commands, options, keys of configuration files and variables of the environment."""

import inspect
import re
from collections.abc import Iterator, Mapping

import click

from command_texts import CommandText, OptionText, command_texts, group_epilog
from docs_site.configuration_schema import SCHEMA, schema_text
from fetchmill.cli.config import VARIABLE, keys_in_files
from fetchmill.cli.main import GROUPS
from fetchmill.cli.main import command as group

_FOLDER = "reference/commands"
# Code, then an option, then what Markdown would read as its own.
_SPECIAL = re.compile(r"(`[^`]+`)|((?<![\w-])--[a-z][a-z0-9-]*)|([\\*_\[\]<>{}|#~])")
# What ends the help of an option: its default, or its variable.
_ENDING = re.compile(r"  \[([^\[\]]+)\]$")
_TOPIC = re.compile(r"`fetchmill help ([a-z0-9-]+)`")
# How values are written, by the word that help has for them.
_VALUES = {
    "BYTES": "a size: `100`, `64KiB`, `1.5MiB` or `10MB`",
    "SECONDS": "a duration: `1.5s`, `50ms`, `2m` or `1h`; a number alone is seconds",
    "N": "a count: `1000`, `1_000` or `1e6`",
    "X": "a number: `50` or `0.5`",
    "DATE": "a day or a time: `2026-11-01` or `2026-11-01T12:00:00Z`",
    "COLUMNS": "names or numbers with commas between them; a name in double quotes may have a comma",
    "HEADER": "`'Name: value'`",
    "N|P%": "a number of targets, or a share of them: `10` or `1%`",
    "SHARE": "a number from 0 to 1",
}


def command_pages(topics: Mapping[str, str]) -> dict[str, str]:
    """The pages, by their paths in the site.

    Args:
        topics: paths of pages, by the topic of `fetchmill help`.
    """
    texts = {text.name: text for text in command_texts()}
    pages = {f"{_FOLDER}/{name}.md": _command_page(text, topics) for name, text in texts.items()}
    return pages | {
        f"{_FOLDER}/index.md": _index(texts),
        "reference/configuration-keys.md": _keys_page(texts),
        "reference/environment.md": _variables_page(texts),
        f"reference/{SCHEMA}": schema_text(texts.values()),
    }


def _index(texts: Mapping[str, CommandText]) -> str:
    """The page of all commands, of the values that options take, and of exit codes."""
    lines = ["# Commands", "", group.help or "", "", "`fetchmill COMMAND --help` shows the same options on a terminal."]
    for heading, names in GROUPS.items():
        lines += ["", f"## {heading}", "", "| command | what it does |", "|---|---|"]
        lines += [f"| [`fetchmill {name}`]({name}.md) | {_escaped(texts[name].short)} |" for name in names]
    lines += ["", "## Values", "", "| value | how it is written |", "|---|---|"]
    lines += [f"| `{_in_table(word)}` | {text} |" for word, text in _VALUES.items()]
    lines += ["", "## Exit codes", "", "[Exit codes](../exit-codes.md) has causes and remedies.", ""]
    return "\n".join([*lines, *_literal(group_epilog())]) + "\n"


def _command_page(text: CommandText, topics: Mapping[str, str]) -> str:
    """The page of a command."""
    lines = [f"# fetchmill {text.name}", "", _prose(text.summary, topics), "", *_literal(text.usage)]
    lines += _paragraphs(text.details, topics)
    if text.examples:
        lines += ["", "## Examples", "", *_literal("\n".join(text.examples))]
    for heading, options in text.sections.items():
        lines += ["", f"## {heading}"]
        for option in options:
            lines += ["", *_option(option, topics)]
    if text.exit_codes:
        lines += ["", "## Notes", *_paragraphs(text.exit_codes, topics)]
    return "\n".join(lines) + "\n"


def _option(text: OptionText, topics: Mapping[str, str]) -> list[str]:
    """A heading with an anchor, what the option does, and where else it can be given."""
    names = ", ".join(f"`{name}`" for name in [*text.option.opts, *text.option.secondary_opts] if name.startswith("-"))
    label = text.option.opts[-1]
    help, ending = _split_ending(text.help)
    lines = [f"### {names} {{ #{anchor(text.option)} data-toc-label='{label}' }}", "", _prose(help, topics)]
    facts = list(_facts(text, ending))
    return [*lines, "", f"{' · '.join(facts)}", "{ .facts }"] if facts else lines


def _facts(text: OptionText, ending: str) -> Iterator[str]:
    """The value, the default and the other places of an option."""
    value = text.written.rpartition(text.option.opts[-1])[2].strip() if not text.option.is_flag else ""
    if value:
        words = value.strip("[]=").split("|")
        is_choice = isinstance(text.option.type, click.Choice)
        yield "One of " + ", ".join(f"`{word}`" for word in words) if is_choice else f"Value: `{value}`"
    if text.option.multiple:
        yield "May be repeated"
    if ending.startswith("default: "):
        yield f"Default: `{ending.removeprefix('default: ')}`"
    elif ending and ending not in (text.option.envvar, "required"):
        yield f"`{ending}`"
    if ending == "required":
        yield "Required"
    if text.option.envvar:
        yield f"Environment: `{text.option.envvar}`"


def _split_ending(help: str) -> tuple[str, str]:
    """The help of an option, and what is in brackets at its end."""
    found = _ENDING.search(help)
    return (help[: found.start()], found[1]) if found else (help, "")


def anchor(option: click.Option) -> str:
    """The fragment of an option in the page of its command: `shard-size`."""
    return option.opts[-1].lstrip("-")


def _keys_page(texts: Mapping[str, CommandText]) -> str:
    """The page of all keys of a configuration file."""
    lines = ["# Configuration keys", "", "A configuration file is TOML, with a table for each command:"]
    lines += ["[Options from a file](configuration.md) has examples and rules. A `-` in a key may be a `_`.", ""]
    lines += [f"[{SCHEMA}]({SCHEMA}) is a JSON Schema of the file. Editors with a TOML language server, such as Taplo,"]
    lines += ["complete and check keys if the first line of the file names it:", ""]
    lines += ["```toml", f"#:schema ./{SCHEMA}", "[get]", 'format = "parquet"', "```"]
    for name in (name for names in GROUPS.values() for name in names):
        rows = list(_key_rows(texts[name]))
        if rows:
            lines += ["", f"## `[{name}]`", "", "| key | what it is |", "|---|---|", *rows]
    return "\n".join(lines) + "\n"


def _key_rows(text: CommandText) -> Iterator[str]:
    """A row for each key of a command's table, the other names of an option included."""
    of_options = {option.option.name: option for options in text.sections.values() for option in options}
    for key, option in keys_in_files(_click_command(text.name)).items():
        # The pages show a setting as a part of `--set`.
        help, _ = _split_ending((option.help or "") if option.hidden else of_options[option.name].help)
        link = f"commands/{text.name}.md#{'set' if option.hidden else anchor(option)}"
        yield f"| [`{key.replace('_', '-')}`]({link}) | {_in_table(_prose(help, {}))} |"


def _click_command(name: str) -> click.Command:
    """A command by its name."""
    found = group.get_command(click.Context(group), name)
    if found is None:
        raise ValueError(f"{name}: not a command")
    return found


def _variables_page(texts: Mapping[str, CommandText]) -> str:
    """The page of variables of the environment."""
    by_variable: dict[str, list[tuple[str, OptionText]]] = {}
    for name, text in texts.items():
        for option in (option for options in text.sections.values() for option in options):
            if option.option.envvar:
                by_variable.setdefault(str(option.option.envvar), []).append((name, option))
    lines = ["# Environment variables", "", "An option on the command line counts more than a variable, and a variable"]
    lines += [f"more than a configuration file. `{VARIABLE}` names that file.", ""]
    lines += ["| variable | option | what it is | commands |", "|---|---|---|---|"]
    for variable, uses in sorted(by_variable.items()):
        option = uses[0][1]
        commands = ", ".join(f"[{name}](commands/{name}.md#{anchor(used.option)})" for name, used in uses)
        help = _in_table(_prose(_split_ending(option.help)[0], {}))
        lines.append(f"| `{variable}` | `--{anchor(option.option)}` | {help} | {commands} |")
    lines += ["", "Others have these variables as well:", ""]
    lines += ["- Variables of AWS have credentials, regions and endpoints of buckets ([S3](../guide/s3.md))."]
    lines += ["- With `--proxy env`, `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy` name proxies"]
    lines += ["  ([proxies](http-support.md#proxies))."]
    lines += ["- `FETCHMILL_TRACEBACK=1` shows the traceback of an internal error."]
    return "\n".join(lines) + "\n"


def _paragraphs(text: str, topics: Mapping[str, str]) -> list[str]:
    """Paragraphs of help; one that begins with a line of a backspace stays as it is."""
    lines: list[str] = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            lines += ["", *_literal(paragraph[2:])]
        elif paragraph:
            lines += ["", _prose(" ".join(paragraph.split()), topics)]
    return lines


def _literal(text: str) -> list[str]:
    """Lines as they are."""
    return ["```bash", *text.splitlines(), "```"]


def _prose(text: str, topics: Mapping[str, str]) -> str:
    """A text of help as Markdown: options are code, and topics of help links."""

    def link(found: re.Match[str]) -> str:
        path = topics.get(found[1])
        return f"[{found[0]}](../../{path})" if path else found[0]

    return _TOPIC.sub(link, _escaped(text))


def _escaped(text: str) -> str:
    """A plain text as Markdown."""
    return _SPECIAL.sub(lambda found: found[1] or (f"`{found[2]}`" if found[2] else f"\\{found[3]}"), text)


def _in_table(text: str) -> str:
    """A text in a cell: a bar would end it."""
    return re.sub(r"(?<!\\)\|", r"\\|", text)
