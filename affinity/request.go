package affinity

// Boundary is a place in a prompt up to which its prefix can be shared.
type Boundary struct {
	Hash  uint64 // of everything up to here, chained
	Bytes int    // of prompt text up to here
}

// Request is what placement must know of one request. The zero value is a
// request of which no prefix is known; it is routed by load. Pick neither
// changes nor keeps a Request.
type Request struct {
	// Model is the model or adapter asked for; "" means any.
	Model string
	// Head is the hash of what a group of conversations shares (model,
	// template, tools, system text), and Root the hash of the head and the
	// first user message, which all turns of one conversation share. 0 means
	// unknown.
	Head, Root uint64
	// Prefix is the hash of the request's first bytes or characters, as many
	// as [FixedPrefixOptions] say; only [FixedPrefix] uses it. 0 means unknown.
	Prefix uint64
	// Boundaries are the prompt's prefixes in prompt order, each longer than
	// the one before. May be nil.
	Boundaries []Boundary
	// Previous is the number of leading Boundaries that the conversation's
	// last request had as well: those up to the last message that the model
	// wrote. 0 means that this is the first turn, or that nothing is known.
	Previous int
	// Session, when not empty, is the conversation's identity and replaces
	// Root as the key.
	Session string
	// Tenant and CacheKey separate: the same prompt under another tenant or
	// cache key is another key. They do not pin anything to one endpoint.
	// FixedPrefix refuses a cache key that is not ASCII or longer than 64.
	Tenant, CacheKey string
	// Last is the ID of the endpoint that served the conversation's last turn,
	// as the application has carried it from there; "" means unknown. It is a
	// hint for [Affinity], which then takes that endpoint to hold the prompt as
	// far as the last turn went, and weighs it against the others. It is
	// ignored when that endpoint is not in the set, does not serve the model, is
	// unavailable, drains, is at its hard limit, or has been tried.
	Last string
	// Sticky is the ID of the endpoint that must serve the request because
	// state lives there; "" means none.
	Sticky string
	// Strategy picks this request's endpoint; "" means the router's. It lets
	// strategies be compared on one fleet and one set of counts.
	Strategy Strategy
	// Tried are the IDs of the endpoints that this call has tried already, in
	// the order of trying. They are passed over unless nothing else is left;
	// see [Router.Pick].
	Tried []string
}

// previous is Previous within the bounds of Boundaries.
func (r *Request) previous() int { return max(0, min(r.Previous, len(r.Boundaries))) }
