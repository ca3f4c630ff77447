package canon

// rule says how the writer treats a value.
type rule uint8

const (
	ruleVerbatim rule = iota // order kept, spelling normalised

	// Objects with typed members; shapes has their fields.
	ruleChatRoot
	ruleCompletionsRoot
	ruleEmbeddingsRoot
	ruleResponsesRoot
	ruleMessagesRoot
	ruleFlat // an object of which only the member order is typed
	ruleMessage
	rulePart
	ruleToolCall
	ruleItem
	ruleTool
	ruleToolFunction
	ruleToolChoice

	// Values with a writer of their own.
	ruleMessageList   // messages, in the order that the batches ask for
	ruleItemList      // input of Responses
	ruleContent       // string, or parts of which a single text part is a string
	ruleParts         // parts, none of them changed into a string
	ruleToolCalls     // list of ruleToolCall
	ruleTools         // list of ruleTool, sorted
	ruleSchema        // JSON Schema of a tool's parameters
	ruleStreamOptions // object to which include_usage may be added
)

// drop says under which condition a member is left out at Stable and Strong.
type drop uint8

const (
	whenNull    drop = 1 << iota // null, which the engine reads as absent
	whenEmpty                    // an empty list that the engine reads as absent
	whenNoTools                  // as whenEmpty, if no tool_choice stands beside it (vLLM would answer 400)
	always                       // a marker that the engine ignores
)

// use says what a member is for the prompt, which decides its place in the
// root and whether it is hashed.
type use uint8

const (
	useOther  use = iota // not in the prompt: written last, not hashed
	useModel             // written first, hashed in the head
	useTools             // hashed as the tools
	useHead              // changes the tokens or the block hash of the whole prompt: hashed in the head
	useSystem            // text before the messages that is not one of them
	usePrompt            // the messages or what stands in their place
	useTail              // changes the tokens after the last message only: hashed last
)

// field is a member that a shape knows. Members it does not know are kept
// verbatim, in sorted place.
type field struct {
	name string
	rule rule
	drop drop
	use  use
}

// shape is the list of the fields of a typed object.
type shape []field

func (s shape) find(name []byte) *field {
	for i := range s {
		if s[i].name == string(name) {
			return &s[i]
		}
	}
	return nil
}

// isMark reports whether a member is a cache marker of Anthropic's or OpenAI's.
// vLLM reads neither; they move from turn to turn (sgl-project/sglang#36877).
func isMark(name []byte) bool {
	return string(name) == "cache_control" || string(name) == "prompt_cache_breakpoint"
}

var (
	mark1 = field{name: "cache_control", drop: always}
	mark2 = field{name: "prompt_cache_breakpoint", drop: always}
)

// sampling are optional root fields outside the prompt whose default is null
// in vLLM (protocol.py), so that null says the same as nothing. Fields with
// another default (n, logprobs, penalties, tool_choice …) are not among them.
var sampling = shape{
	{name: "temperature", drop: whenNull}, {name: "top_p", drop: whenNull}, {name: "top_k", drop: whenNull},
	{name: "min_p", drop: whenNull}, {name: "max_tokens", drop: whenNull}, {name: "stop", drop: whenNull},
	{name: "max_completion_tokens", drop: whenNull}, {name: "max_output_tokens", drop: whenNull},
	{name: "seed", drop: whenNull}, {name: "logit_bias", drop: whenNull}, {name: "user", drop: whenNull},
	{name: "metadata", drop: whenNull}, {name: "service_tier", drop: whenNull},
	{name: "prompt_cache_key", drop: whenNull}, {name: "safety_identifier", drop: whenNull},
	{name: "stop_sequences", drop: whenNull},
	{name: "stream_options", rule: ruleStreamOptions, drop: whenNull},
}

// template are root fields that change the tokens of the whole prompt or its
// block hash (engine.md 1.3).
var template = shape{
	{name: "add_special_tokens", use: useHead},
	{name: "cache_salt", drop: whenNull, use: useHead},
	{name: "chat_template", drop: whenNull, use: useHead},
	{name: "chat_template_kwargs", drop: whenNull, use: useHead},
	{name: "documents", drop: whenNull, use: useHead},
	{name: "media_io_kwargs", drop: whenNull, use: useHead},
	{name: "mm_processor_kwargs", drop: whenNull, use: useHead},
	{name: "reasoning_effort", drop: whenNull, use: useHead},
	{name: "truncate_prompt_tokens", drop: whenNull, use: useHead},
	{name: "truncation_side", drop: whenNull, use: useHead},
}

func join(shapes ...shape) shape {
	var all shape
	for _, s := range shapes {
		all = append(all, s...)
	}
	return all
}

// shapes has the fields of each object rule. It is filled once and never
// changed.
var shapes = [...]shape{
	ruleChatRoot: join(shape{
		{name: "model", use: useModel},
		{name: "messages", rule: ruleMessageList, use: usePrompt},
		{name: "tools", rule: ruleTools, drop: whenNull | whenNoTools, use: useTools},
		{name: "functions", rule: ruleTools, drop: whenNull, use: useTools},
		{name: "tool_choice", rule: ruleToolChoice},
		{name: "add_generation_prompt", use: useTail},
		{name: "continue_final_message", use: useTail},
	}, template, sampling),
	ruleCompletionsRoot: join(shape{
		{name: "model", use: useModel},
		{name: "prompt", use: usePrompt},
		{name: "prompt_embeds", drop: whenNull, use: usePrompt},
		{name: "suffix", drop: whenNull, use: useHead},
	}, template, sampling),
	ruleEmbeddingsRoot: {
		{name: "model", use: useModel},
		{name: "input", use: usePrompt},
		{name: "messages", rule: ruleMessageList, use: usePrompt},
		{name: "add_special_tokens", use: useHead},
		{name: "cache_salt", use: useHead},
		{name: "chat_template", use: useHead},
		{name: "chat_template_kwargs", use: useHead},
		{name: "truncate_prompt_tokens", use: useHead},
		{name: "truncation_side", use: useHead},
		{name: "mm_processor_kwargs", use: useHead},
	},
	ruleResponsesRoot: join(shape{
		{name: "model", use: useModel},
		{name: "input", rule: ruleItemList, use: usePrompt},
		{name: "instructions", drop: whenNull, use: useSystem},
		{name: "tools", rule: ruleTools, drop: whenNull | whenNoTools, use: useTools},
		{name: "tool_choice", rule: ruleToolChoice},
		{name: "previous_response_id", drop: whenNull, use: useHead},
		{name: "conversation", drop: whenNull, use: useHead},
		{name: "prompt", drop: whenNull, use: useHead},
		{name: "reasoning", rule: ruleFlat, drop: whenNull, use: useHead},
	}, template, sampling),
	ruleMessagesRoot: join(shape{
		{name: "model", use: useModel},
		{name: "messages", rule: ruleMessageList, use: usePrompt},
		{name: "system", rule: ruleContent, drop: whenNull, use: useSystem},
		{name: "tools", rule: ruleTools, drop: whenNull | whenNoTools, use: useTools},
		{name: "tool_choice", rule: ruleToolChoice},
		{name: "thinking", rule: ruleFlat, drop: whenNull, use: useHead},
		mark1, mark2,
	}, template, sampling),

	ruleFlat: {},
	ruleMessage: {
		{name: "role"},
		{name: "content", rule: ruleContent},
		{name: "tool_calls", rule: ruleToolCalls, drop: whenNull | whenEmpty},
		{name: "tool_call_id"},
		{name: "name", drop: whenNull},
		{name: "reasoning_content", drop: whenNull},
		{name: "reasoning", drop: whenNull},
		{name: "function_call", rule: ruleFlat, drop: whenNull},
		{name: "refusal", drop: whenNull},
		{name: "audio", rule: ruleFlat, drop: whenNull},
		{name: "annotations", drop: whenNull},
		mark1, mark2,
	},
	rulePart: {
		{name: "type"},
		{name: "text"},
		{name: "image_url", rule: ruleFlat},
		{name: "video_url", rule: ruleFlat},
		{name: "audio_url", rule: ruleFlat},
		{name: "input_audio", rule: ruleFlat},
		{name: "file", rule: ruleFlat},
		{name: "source", rule: ruleFlat},
		{name: "content", rule: ruleParts}, // of an Anthropic tool_result
		{name: "uuid", drop: whenNull},
		mark1, mark2,
	},
	ruleToolCall: {
		{name: "id"},
		{name: "type"},
		{name: "function", rule: ruleFlat},
		{name: "index", drop: whenNull},
	},
	ruleItem: {
		{name: "type"},
		{name: "role"},
		{name: "content", rule: ruleParts},
		{name: "output", rule: ruleParts},
		{name: "summary", rule: ruleParts},
		{name: "id", drop: whenNull},
		{name: "status", drop: whenNull},
		{name: "encrypted_content", drop: whenNull},
		mark1, mark2,
	},
	ruleTool: {
		{name: "type"},
		{name: "function", rule: ruleToolFunction},
		{name: "name"},
		{name: "description", drop: whenNull},
		{name: "parameters", rule: ruleSchema, drop: whenNull},
		{name: "input_schema", rule: ruleSchema},
		{name: "strict", drop: whenNull},
		{name: "defer_loading", drop: whenNull},
		mark1, mark2,
	},
	ruleToolFunction: {
		{name: "name"},
		{name: "description", drop: whenNull},
		{name: "parameters", rule: ruleSchema, drop: whenNull},
		{name: "strict", drop: whenNull},
		{name: "defer_loading", drop: whenNull},
		mark1, mark2,
	},
	ruleToolChoice: {
		{name: "function", rule: ruleFlat},
	},
}

// rootRule is the shape of the root of each API.
var rootRule = [...]rule{
	Chat: ruleChatRoot, Completions: ruleCompletionsRoot, Embeddings: ruleEmbeddingsRoot,
	Responses: ruleResponsesRoot, Messages: ruleMessagesRoot,
}
