package canon

// maxDepth is how deep objects and arrays may nest. encoding/json stops at
// 10,000 and Python's json at about 1,000; requests stay below 30, and a body
// that nests deeper than this is an accident or an attack.
const maxDepth = 128

// parser turns the bytes of a document into nodes, in one pass and by the
// strict grammar of RFC 8259. It tells two sorts of fault apart: a fatal one
// ends the pass, the others (duplicate names, unpaired surrogates, invalid
// UTF-8) are noted and parsing goes on, so that the model's name and the like
// can still be read from a body that is passed on untouched.
type parser struct {
	doc
	marks
	names  []name      // of the objects that are open, those that no rule knows
	table  []uint32    // for objects of many names
	odd    []oddEscape // in the order of the source, the first keepNodes of them
	utf8   bool        // no fault of UTF-8 was found in the source, or, where sources are marked, in what was
	depth  int         // limit
	untidy int         // pieces of whitespace and strings to respell, so far
	diag   Diagnosis
	api    API
	cache  *toolCache // may be nil
	entry  *toolEntry // the list of tools that the cache recognised
}

func (p *parser) reset(src []byte, depth int) {
	p.src = src
	p.unmark()
	p.nodes = p.nodes[:0]
	p.arena = p.arena[:0]
	p.names = p.names[:0]
	p.odd = p.odd[:0]
	p.depth = depth
	p.untidy = 0
	p.diag = Diagnosis{}
	p.api, p.cache, p.entry = Unknown, nil, nil
}

// fail records a fatal fault and returns -1. A fatal fault outranks one that
// was only noted: a body that is not JSON is that first of all.
func (p *parser) fail(code Code, offset int, detail string) int {
	p.diag = Diagnosis{Code: code, Offset: offset, Path: p.pathTo(uint32(len(p.nodes))), Detail: detail}
	return -1
}

// note records a fault of the value at node that does not end the pass. The
// first one stays.
func (p *parser) note(code Code, offset int, node uint32, detail string) {
	if p.diag.Code == OK {
		p.diag = Diagnosis{Code: code, Offset: offset, Path: p.pathTo(node), Detail: detail}
	}
}

// parse parses the whole of the source as one value. It reports false after a
// fatal fault; p.diag has the first fault.
func (p *parser) parse() bool {
	i := p.space(0)
	if i == len(p.src) {
		return p.fail(NotJSON, i, "empty") > 0
	}
	if i = p.value(i, 1); i < 0 {
		return false
	}
	if i = p.space(i); i != len(p.src) {
		return p.fail(TrailingData, i, "data after the value") > 0
	}
	return true
}

// space skips whitespace from i on.
func (p *parser) space(i int) int {
	src := p.src
	from := i
	for i < len(src) && (src[i] == ' ' || src[i] == '\n' || src[i] == '\r' || src[i] == '\t') {
		i++
	}
	if i > from {
		p.untidy++
	}
	return i
}

// value parses the value at i, which lies at that depth of nesting, and
// returns the position after it or -1 after a fatal fault.
func (p *parser) value(i, depth int) int {
	if i >= len(p.src) {
		return p.fail(NotJSON, i, "unexpected end")
	}
	switch p.src[i] {
	case '"':
		return p.scanString(i + 1)
	case '{':
		return p.object(i, depth)
	case '[':
		return p.array(i, depth)
	case 't':
		return p.scanLiteral(i, "true", kindTrue)
	case 'f':
		return p.scanLiteral(i, "false", kindFalse)
	case 'n':
		return p.scanLiteral(i, "null", kindNull)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return p.scanNumber(i)
	}
	return p.fail(NotJSON, i, "not a value")
}

func (p *parser) array(i, depth int) int {
	if depth > p.depth {
		return p.fail(TooDeep, i, "nested too deep")
	}
	at, untidy := p.open(i, kindArray)
	src := p.src
	i = p.space(i + 1)
	if i < len(src) && src[i] == ']' {
		return p.close(at, i, untidy)
	}
	for {
		if i = p.value(i, depth+1); i < 0 {
			return -1
		}
		if i < len(src) && src[i] <= ' ' {
			i = p.space(i)
		}
		switch {
		case i < len(src) && src[i] == ',':
			i++
			if i < len(src) && src[i] <= ' ' {
				i = p.space(i)
			}
		case i < len(src) && src[i] == ']':
			return p.close(at, i, untidy)
		default:
			return p.fail(NotJSON, i, "want , or ] in an array")
		}
	}
}

func (p *parser) object(i, depth int) int {
	if depth > p.depth {
		return p.fail(TooDeep, i, "nested too deep")
	}
	object, untidy := p.open(i, kindObject)
	src := p.src
	base := len(p.names)
	var seen [(nameCount + 63) / 64]uint64 // names that a rule knows
	i = p.space(i + 1)
	if i < len(src) && src[i] == '}' {
		return p.close(object, i, untidy)
	}
	for {
		if i >= len(src) || src[i] != '"' {
			return p.fail(NotJSON, i, "want a member name")
		}
		key := uint32(len(p.nodes))
		at := i
		if i = p.scanString(i + 1); i < 0 {
			return -1
		}
		if id := p.identify(key, at); id != nUnknown {
			if bit := uint64(1) << (id & 63); seen[id>>6]&bit != 0 {
				p.note(DuplicateName, at, key, "second member of that name")
			} else {
				seen[id>>6] |= bit
			}
		}
		if i < len(src) && src[i] <= ' ' {
			i = p.space(i)
		}
		if i >= len(src) || src[i] != ':' {
			return p.fail(NotJSON, i, "want : after a member name")
		}
		i++
		if i < len(src) && src[i] <= ' ' {
			i = p.space(i)
		}
		after := 0
		if depth == 1 && p.cache != nil {
			after = p.cachedTools(i, key)
		}
		if after == 0 {
			if i < len(src) && src[i] == '"' { // the most frequent
				after = p.scanString(i + 1)
			} else {
				after = p.value(i, depth+1)
			}
		}
		if i = after; i < 0 {
			return -1
		}
		if i < len(src) && src[i] <= ' ' {
			i = p.space(i)
		}
		switch {
		case i < len(src) && src[i] == ',':
			i++
			if i < len(src) && src[i] <= ' ' {
				i = p.space(i)
			}
		case i < len(src) && src[i] == '}':
			if len(p.names) > base {
				p.checkNames(base)
			}
			return p.close(object, i, untidy)
		default:
			return p.fail(NotJSON, i, "want , or } in an object")
		}
	}
}

// open appends the node of a container that starts at i. It returns the node
// and the count of untidy pieces before it.
func (p *parser) open(i int, k kind) (at uint32, untidy int) {
	at = uint32(len(p.nodes))
	p.nodes = append(p.nodes, node{start: uint32(i), kind: k})
	return at, p.untidy
}

// close completes the container at node at, whose closing bracket is at i.
func (p *parser) close(at uint32, i, untidy int) int {
	n := &p.nodes[at]
	n.end = uint32(i + 1)
	n.aux = uint32(len(p.nodes))
	if p.untidy != untidy {
		n.flags |= flagRespell
	}
	return i + 1
}
