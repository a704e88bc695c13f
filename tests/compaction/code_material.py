"""Source files and what compilers and test runners say, made by a seeded generator.

Big and never the same twice, but small in the repository: a language is a few pieces with holes.
"""

from random import Random
from string import Template

PYTHON = '''
def ${verb}_$noun(self, $other: $Other, *, limit: int = $n) -> list[$Noun]:
    """$Verb the ${noun}s of a $other, newest first."""
    rows = self.session.query($Noun).filter_by(${other}_id=$other.id).limit(limit)
    return [row for row in rows if not row.$state]
%%
class ${Noun}${Verb}Error(ValueError):
    def __init__(self, $noun: str, line: int = $n) -> None:
        super().__init__(f"cannot $verb {$noun} (line {line})")
        self.$noun = $noun
%%
async def ${verb}_${noun}_$state(client: Client, ${noun}_id: int) -> $Noun | None:
    answer = await client.get(f"/${noun}s/{${noun}_id}", timeout=$n)
    if answer.status_code == $status:
        return None
    answer.raise_for_status()
    return $Noun.from_json(answer.json())
'''
GO = """
// $Verb$Noun ${verb}s the $noun of a $other.
func (s *${Other}Store) $Verb$Noun(ctx context.Context, id int64) (*$Noun, error) {
    ctx, cancel := context.WithTimeout(ctx, $n*time.Second)
    defer cancel()
    row := s.db.QueryRowContext(ctx, "SELECT id, $state FROM ${noun}s WHERE id = $1", id)
    var found $Noun
    if err := row.Scan(&found.ID, &found.$State); err != nil {
        return nil, fmt.Errorf("$verb $noun %d: %w", id, err)
    }
    return &found, nil
}
%%
type $Noun${Verb}Options struct {
    Limit   int // at most $n
    Timeout time.Duration
    $State  bool
}
"""
RUST = """
/// ${Verb}s one $noun; `$other` says where it began.
pub fn ${verb}_$noun(input: &[u8], $other: usize) -> Result<$Noun, ${Verb}Error> {
    let end = input[$other..].iter().position(|b| *b == $n).unwrap_or(input.len());
    if end > $status {
        return Err(${Verb}Error::$State($other));
    }
    Ok($Noun::new(&input[$other..$other + end]))
}
%%
#[derive(Debug, Clone, PartialEq)]
pub enum $Noun$State {
    $Verb(u$width),
    $Other { at: usize, len: usize },
    Missing,
}
"""
TYPESCRIPT = """
export function use$Noun$Verb(${other}Id: string): ${Noun}State {
    const [$noun, set$Noun] = useState<$Noun | null>(null);
    const [$state, set$State] = useState(false);
    useEffect(() => {
        const abort = new AbortController();
        fetch(address("$other", ${other}Id, "$noun", $n), { signal: abort.signal })
            .then((reply) => reply.json())
            .then(set$Noun, () => set$State(true));
        return () => abort.abort();
    }, [${other}Id]);
    return { $noun, $state };
}
%%
interface $Noun${Verb}Props {
    $noun: $Noun;
    max$Other: number; // $n by default
    on$Verb: (next: $Noun) => void;
}
"""
SQL = """
-- ${verb}s every $noun to its $other
SELECT
    $noun.id AS ${noun}_id,
    $other.$state AS ${other}_$state,
    count(*) FILTER (WHERE $noun.$state) AS n
FROM staging.${noun}s AS $noun
LEFT JOIN staging.${other}s AS $other ON $other.id = $noun.${other}_id
WHERE $noun.loaded_at > now() - interval '$n days'
GROUP BY 1, 2
HAVING count(*) < $status;
"""
C = """
/* $Verb the $noun from the $other; called with interrupts $state. */
static int ${noun}_$verb(struct $other *dev, uint${width}_t *out)
{
    uint32_t timeout = $n * TICKS_PER_MS;
    while (!(dev->regs->$STATE & ${NOUN}_READY)) {
        if (timeout-- == 0)
            return -${STATE}_TIMEOUT;
    }
    *out = (uint${width}_t)(dev->regs->DATA & $status);
    return 0;
}
"""
VERBS = ("load", "parse", "merge", "render", "cancel", "verify", "export", "refresh", "resolve")
STATES = ("deleted", "expired", "locked", "pending", "stale", "hidden", "frozen", "retried")


def names(random: Random, nouns: str) -> dict[str, str | int]:
    """What fills the holes; `nouns` are the words of the transcript's trade."""
    noun, other = random.sample(nouns.split(), 2)
    words = {"noun": noun, "other": other, "verb": random.choice(VERBS)}
    words["state"] = random.choice(STATES)
    titles = {word.title(): text.title().replace("_", "") for word, text in words.items()}
    upper = {word.upper(): text.upper() for word, text in words.items()}
    numbers = {
        "n": random.randint(2, 90),
        "status": random.choice((204, 304, 404, 410, 422, 512)),
        "width": random.choice((8, 16, 32)),
    }
    return words | titles | upper | numbers


def source(random: Random, language: str, nouns: str, lines: int) -> str:
    """A file in a `language` of this module, of at least so many lines."""
    pieces = [Template(piece.strip("\n")) for piece in language.split("%%")]
    text: list[str] = []
    while len(text) < lines:
        piece = random.choice(pieces).safe_substitute(names(random, nouns))
        text += [*piece.split("\n"), ""]
    return "\n".join(text)


def pytest_run(random: Random, nouns: str, tests: int, failing: str = "") -> str:
    """`failing`: `path::test`, a space, and the error."""
    made = [names(random, nouns) for _ in range(tests)]
    lines = [f"collected {tests} items", ""]
    for number, name in enumerate(made, 1):
        place = f"tests/test_{name['other']}.py::test_{name['verb']}_{name['noun']}_{number}"
        lines.append(f"{place:<64} PASSED [{number * 100 // tests:>3}%]")
    if not failing:
        return "\n".join([*lines, f"===== {tests} passed in {random.uniform(2, 90):.2f}s ====="])
    place, _, error = failing.partition(" ")
    lines += ["", "=== FAILURES ===", f"____ {place.rpartition('::')[2]} ____", "", f"E   {error}"]
    return "\n".join([*lines, f"FAILED {place} - {error}", f"=== 1 failed, {tests - 1} passed ==="])


def go_test_run(random: Random, nouns: str, tests: int, failing: str = "") -> str:
    lines = []
    for _ in range(tests):
        name = names(random, nouns)
        test = f"Test{name['Verb']}{name['Noun']}/{name['state']}_{name['n']}"
        lines += [f"=== RUN   {test}", f"--- PASS: {test} ({random.uniform(0, 0.9):.2f}s)"]
    ending = [f"    {failing}", "FAIL"] if failing else ["PASS"]
    return "\n".join([*lines, *ending])


def compile_run(random: Random, nouns: str, units: int, error: str = "") -> str:
    """What a build says: a line for each unit, warnings among them."""
    lines = []
    for number in range(1, units + 1):
        name = names(random, nouns)
        lines.append(f"[{number}/{units}] Compiling {name['noun']}-{name['verb']} v0.{name['n']}.1")
        if number % 7 == 0:
            place = f"{name['noun']}/{name['verb']}.c:{random.randint(10, 900)}"
            lines.append(f"warning: {place}: unused variable '{name['other']}' [-Wunused]")
    return "\n".join([*lines, error or f"Finished in {random.uniform(3, 80):.1f} s"])


def grep_hits(
    random: Random, folder: str, ending: str, word: str, nouns: str, hits: int
) -> list[str]:
    found = []
    for _ in range(hits):
        name = names(random, nouns)
        path = f"{folder}/{name['other']}/{name['noun']}_{name['verb']}{ending}"
        found.append(f"{path}:{random.randint(3, 400)}:    {word}({name['noun']}, {name['n']})")
    return found
