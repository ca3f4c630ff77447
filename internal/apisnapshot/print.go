// Package apisnapshot keeps the exported API of the project's packages as a
// text, api.txt, so that no change of it goes unnoticed. Its test compares:
//
//	go test ./internal/apisnapshot -update
//
// writes the text anew.
package apisnapshot

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Print returns the exported API of every package below root that others can
// import: no internal ones, no examples. Nested modules are in it.
func Print(root string) (string, error) {
	var out strings.Builder
	err := filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		switch name := d.Name(); {
		case dir == root:
		case name == "internal", name == "examples", name == "testdata", strings.HasPrefix(name, "."), strings.HasPrefix(name, "_"):
			return fs.SkipDir
		}
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			return err
		}
		return printPackage(&out, filepath.ToSlash(rel), dir)
	})
	return out.String(), err
}

// printPackage writes what the package in dir exports, if there is one.
func printPackage(out *strings.Builder, name, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	declared := map[declaration]bool{} // a set: files for other systems repeat what they declare
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, filepath.Join(dir, e.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.FileExports(file)
		for _, d := range file.Decls {
			if err := declare(declared, files, d); err != nil {
				return err
			}
		}
	}
	if len(declared) == 0 {
		return nil
	}
	fmt.Fprintf(out, "# %s\n\n", name)
	for _, d := range slices.SortedFunc(maps.Keys(declared), declaration.compare) {
		fmt.Fprintf(out, "%s\n", d.text)
	}
	out.WriteString("\n")
	return nil
}

// A declaration is one that is exported, with what it is sorted by: constants,
// variables, functions, types, and with each type its methods.
type declaration struct {
	kind        int
	owner, name string
	text        string
}

func (d declaration) compare(o declaration) int {
	return cmp.Or(d.kind-o.kind, cmp.Compare(d.owner, o.owner), cmp.Compare(d.name, o.name), cmp.Compare(d.text, o.text))
}

const (
	kindConst = iota
	kindVar
	kindFunc
	kindType
)

var blank = regexp.MustCompile(`\n(?:[ \t]*\n)+`)

func declare(to map[declaration]bool, files *token.FileSet, d ast.Decl) error {
	put := func(kind int, owner, name string, node any) error {
		var text bytes.Buffer
		if err := format.Node(&text, files, node); err != nil {
			return err
		}
		// The blank lines stood before comments, which are not shown.
		to[declaration{kind, owner, name, blank.ReplaceAllString(text.String(), "\n")}] = true
		return nil
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		d.Body = nil
		if d.Recv == nil {
			return put(kindFunc, "", d.Name.Name, d)
		}
		owner := receiver(d.Recv.List[0].Type)
		if !ast.IsExported(owner) {
			return nil
		}
		return put(kindType, owner, d.Name.Name, d)
	case *ast.GenDecl:
		switch d.Tok {
		case token.CONST: // as a block, since the values may depend on the place in it
			return put(kindConst, "", d.Specs[0].(*ast.ValueSpec).Names[0].Name, d)
		case token.VAR, token.TYPE:
			for _, spec := range d.Specs {
				one := &ast.GenDecl{Tok: d.Tok, Specs: []ast.Spec{spec}}
				var err error
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					withoutArguments(spec.Values)
					err = put(kindVar, "", spec.Names[0].Name, one)
				case *ast.TypeSpec:
					err = put(kindType, spec.Name.Name, "", one)
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// withoutArguments keeps of a variable's value what tells its type: the text of
// an error is not part of the API.
func withoutArguments(values []ast.Expr) {
	for _, v := range values {
		if call, ok := v.(*ast.CallExpr); ok {
			call.Args, call.Ellipsis = nil, token.NoPos
		}
	}
}

// receiver returns the name of a method's type.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
