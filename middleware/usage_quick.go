package middleware

// read takes the counts of the object that q begins with, which is the usage
// itself or the member of it called in; w is of no use where ok is false.
func (w *wireUsage) read(q quick, in string) (rest quick, ok bool) {
	return q.object(func(name []byte, value quick) (quick, bool) { return w.member(value, in, string(name)) })
}

// member takes the value that q begins with: a count, a null, or an object of
// those.
func (w *wireUsage) member(q quick, in, name string) (rest quick, ok bool) {
	count := w.count(in, name)
	details := in == "" && (name == "prompt_tokens_details" || name == "input_tokens_details")
	if rest, ok = q.literal("null"); ok {
		if count != nil {
			*count = nil
		}
		return rest, true
	}
	if len(q) > 0 && q[0] == '{' && in == "" && count == nil {
		return w.read(q, name)
	}
	n, rest, ok := q.whole()
	if !ok || details {
		return nil, false
	}
	if count != nil {
		*count = &n
	}
	return rest, true
}

// count returns where the count of that name belongs, nil if it is of no
// interest.
func (w *wireUsage) count(in, name string) **int {
	switch {
	case in == "prompt_tokens_details" && name == "cached_tokens":
		return &w.PromptTokensDetails.CachedTokens
	case in == "input_tokens_details" && name == "cached_tokens":
		return &w.InputTokensDetails.CachedTokens
	case in != "":
		return nil
	}
	switch name {
	case "prompt_tokens":
		return &w.PromptTokens
	case "completion_tokens":
		return &w.CompletionTokens
	case "input_tokens":
		return &w.InputTokens
	case "output_tokens":
		return &w.OutputTokens
	case "cache_read_input_tokens":
		return &w.CacheRead
	case "cache_creation_input_tokens":
		return &w.CacheCreation
	}
	return nil
}
