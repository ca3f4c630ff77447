package apisnapshot

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write api.txt anew")

func TestAPIIsAsInTheSnapshot(t *testing.T) {
	got, err := Print("../..")
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile("api.txt", []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile("api.txt")
	require.NoError(t, err)
	if diff := difference(string(want), got); diff != "" {
		t.Fatalf("the exported API has changed:\n\n%s\nIf that is meant, say so in CHANGELOG.md and run\n\n\tgo test ./internal/apisnapshot -update\n", diff)
	}
}

// difference lists the lines that only one of two texts has, under the package
// that they belong to.
func difference(old, new string) string {
	was, is := byPackage(old), byPackage(new)
	names := maps.Clone(was)
	maps.Copy(names, is)
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(names)) {
		lines := append(only("-", was[name], is[name]), only("+", is[name], was[name])...)
		if len(lines) == 0 && !slices.Equal(was[name], is[name]) {
			lines = []string{"the order has changed, or how often a line is there"}
		}
		if len(lines) > 0 {
			out.WriteString(name + "\n" + strings.Join(lines, "\n") + "\n")
		}
	}
	return out.String()
}

func byPackage(text string) map[string][]string {
	packages := map[string][]string{}
	name := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "# ") {
			name = line
		}
		packages[name] = append(packages[name], line)
	}
	return packages
}

func only(mark string, of, not []string) []string {
	var lines []string
	for _, line := range of {
		if !slices.Contains(not, line) {
			lines = append(lines, mark+" "+line)
		}
	}
	return lines
}

func TestDifference(t *testing.T) {
	const old = "# a\n\nfunc F()\nconst (\n\tX = iota\n\tY\n)\n# b\n\nfunc G()\n"
	require.Empty(t, difference(old, old))
	require.Equal(t, "# a\n- func F()\n+ func F(int)\n", difference(old, strings.Replace(old, "F()", "F(int)", 1)))
	require.Equal(t, "# a\nthe order has changed, or how often a line is there\n", difference(old, strings.Replace(old, "\tX = iota\n\tY\n", "\tY\n\tX = iota\n", 1)))
	require.Equal(t, "# b\n- # b\n- \n- func G()\n", difference(old, old[:strings.Index(old, "# b")]))
}

func TestPrint(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("p/p.go", `// Package p is documented.
package p

// T is a type.
type T struct {
	// A is a field.
	A int

	// B is one too.
	B, b string
}

// M does something.
func (t *T) M(n int) error { return nil }
func (t T) m()             {}

type hidden int

func (hidden) Shown() {}

type Alias = T

var (
	ErrX = errors.New("text")
	errY = errors.New("other")
)

const (
	One Kind = iota
	Two
)

func F[V any](v V) (n int) { return 0 }
`)
	write("p/p_linux.go", "package p\n\nfunc System() {}\n")
	write("p/p_other.go", "package p\n\nfunc System() {}\n")
	write("p/p_test.go", "package p\n\nfunc TestHelper() {}\n")
	write("p/internal/q/q.go", "package q\n\nfunc Q() {}\n")
	write("examples/e/e.go", "package e\n\nfunc E() {}\n")
	got, err := Print(root)
	require.NoError(t, err)
	require.Equal(t, `# p

const (
	One Kind = iota
	Two
)
var ErrX = errors.New()
func F[V any](v V) (n int)
func System()
type Alias = T
type T struct {
	A int
	B string
	// contains filtered or unexported fields
}
func (t *T) M(n int) error

`, got)
}
