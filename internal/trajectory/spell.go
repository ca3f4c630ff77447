package trajectory

import "math/rand/v2"

// Plain returns the body of request number step, 0 to Steps()-1, spelled in
// the same way every time.
func (c *Conversation) Plain(model string, step int) []byte {
	return spelling{}.append(nil, c.request(model, c.messages[:c.steps[step]], definitions))
}

func (c *Conversation) request(model string, messages []*value, tools *value) *value {
	return object(
		member{"model", str(model)},
		member{"messages", list(messages...)},
		member{"tools", tools},
		member{"tool_choice", str("auto")},
		member{"max_tokens", &value{lit: "1"}},
		member{"temperature", &value{lit: "0.0"}},
	)
}

// Shuffled returns the body of request number step as a careless client spells
// it, another one each time: tools and the keywords of their schemas permuted,
// the names under required too, the members of typed objects permuted, escapes
// and spaces varied, the results of parallel calls in any order, a text as one
// part in a list here and there, some of them with cache markers. What it means
// is the same.
func (c *Conversation) Shuffled(model string, step int, random *rand.Rand) []byte {
	s := shuffler{random}
	messages := make([]*value, 0, c.steps[step])
	for _, m := range c.messages[:c.steps[step]] {
		messages = append(messages, s.message(m))
	}
	s.results(messages)
	tools := list()
	for _, k := range s.order(definitions.kids) {
		tools.kids = append(tools.kids, member{val: s.tool(k.val)})
	}
	root := s.members(c.request(model, messages, tools))
	return spelling{random: random, spaced: random.IntN(2) == 0}.append(nil, root)
}

type shuffler struct{ random *rand.Rand }

// order returns the kids permuted.
func (s shuffler) order(kids []member) []member {
	out := make([]member, len(kids))
	for i, k := range s.random.Perm(len(kids)) {
		out[i] = kids[k]
	}
	return out
}

// members returns an object with its members permuted.
func (s shuffler) members(v *value) *value { return &value{kind: 'o', kids: s.order(v.kids)} }

func (s shuffler) message(m *value) *value {
	out := s.members(m)
	for i, k := range out.kids {
		switch {
		case k.name == "content" && k.val.kind == 's' && s.random.IntN(4) == 0:
			part := object(member{"type", str("text")}, member{"text", k.val})
			if s.random.IntN(2) == 0 {
				part.kids = append(part.kids, member{"cache_control", object(member{"type", str("ephemeral")})})
			}
			out.kids[i].val = list(s.members(part))
		case k.name == "tool_calls":
			calls := list()
			for _, c := range k.val.kids {
				call := s.members(c.val)
				for j, f := range call.kids {
					if f.name == "function" {
						call.kids[j].val = s.members(f.val)
					}
				}
				calls.kids = append(calls.kids, member{val: call})
			}
			out.kids[i].val = calls
		}
	}
	return out
}

// results swaps the results of parallel calls, half of the time.
func (s shuffler) results(messages []*value) {
	for i, m := range messages {
		if n := len(m.get("tool_calls").kids); n > 1 && i+n < len(messages) && s.random.IntN(2) == 0 {
			batch := messages[i+1 : i+1+n]
			s.random.Shuffle(n, func(a, b int) { batch[a], batch[b] = batch[b], batch[a] })
		}
	}
}

func (s shuffler) tool(t *value) *value {
	out := s.members(t)
	for i, k := range out.kids {
		if k.name == "function" {
			f := s.members(k.val)
			for j, p := range f.kids {
				if p.name == "parameters" {
					f.kids[j].val = s.schema(p.val)
				}
			}
			out.kids[i].val = f
		}
	}
	return out
}

// schema permutes keywords and the names under required. The properties keep
// their order, which steers what a model generates.
func (s shuffler) schema(v *value) *value {
	out := s.members(v)
	for i, k := range out.kids {
		switch k.name {
		case "required":
			out.kids[i].val = &value{kind: 'a', kids: s.order(k.val.kids)}
		case "items":
			out.kids[i].val = s.schema(k.val)
		case "properties":
			properties := object()
			for _, p := range k.val.kids {
				properties.kids = append(properties.kids, member{p.name, s.schema(p.val)})
			}
			out.kids[i].val = properties
		}
	}
	return out
}
