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
	ruleInputs        // string, token ids, or a list of either: kept, but each is placed for the hash
	ruleToolCalls     // list of ruleToolCall
	ruleTools         // list of ruleTool, sorted
	ruleSchema        // JSON Schema of a tool's parameters
	ruleStreamOptions // object to which include_usage may be added

	ruleCount
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
	id   nameID
	name string // of id
	rule rule
	drop drop
	use  use
}

// shape is the list of the fields of a typed object.
type shape []field

// The cache markers of Anthropic and OpenAI. vLLM reads neither; they move from
// turn to turn (sgl-project/sglang#36877).
var (
	mark1 = field{id: nCacheControl, drop: always}
	mark2 = field{id: nPromptCacheBreakpoint, drop: always}
)

// sampling are optional root fields outside the prompt whose default is null
// in vLLM (protocol.py), so that null says the same as nothing. Fields with
// another default (n, logprobs, penalties, tool_choice …) are not among them.
var sampling = shape{
	{id: nTemperature, drop: whenNull}, {id: nTopP, drop: whenNull}, {id: nTopK, drop: whenNull},
	{id: nMinP, drop: whenNull}, {id: nMaxTokens, drop: whenNull}, {id: nStop, drop: whenNull},
	{id: nMaxCompletionTokens, drop: whenNull}, {id: nMaxOutputTokens, drop: whenNull},
	{id: nSeed, drop: whenNull}, {id: nLogitBias, drop: whenNull}, {id: nUser, drop: whenNull},
	{id: nMetadata, drop: whenNull}, {id: nServiceTier, drop: whenNull},
	{id: nPromptCacheKey, drop: whenNull}, {id: nSafetyIdentifier, drop: whenNull},
	{id: nStopSequences, drop: whenNull},
	{id: nStreamOptions, rule: ruleStreamOptions, drop: whenNull},
}

// template are root fields that change the tokens of the whole prompt or its
// block hash (engine.md 1.3).
var template = shape{
	{id: nAddSpecialTokens, use: useHead},
	{id: nCacheSalt, drop: whenNull, use: useHead},
	{id: nChatTemplate, drop: whenNull, use: useHead},
	{id: nChatTemplateKwargs, drop: whenNull, use: useHead},
	{id: nDocuments, drop: whenNull, use: useHead},
	{id: nMediaIoKwargs, drop: whenNull, use: useHead},
	{id: nMmProcessorKwargs, drop: whenNull, use: useHead},
	{id: nReasoningEffort, drop: whenNull, use: useHead},
	{id: nTruncatePromptTokens, drop: whenNull, use: useHead},
	{id: nTruncationSide, drop: whenNull, use: useHead},
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
var shapes = named([...]shape{
	ruleChatRoot: join(shape{
		{id: nModel, use: useModel},
		{id: nMessages, rule: ruleMessageList, use: usePrompt},
		{id: nTools, rule: ruleTools, drop: whenNull | whenNoTools, use: useTools},
		{id: nFunctions, rule: ruleTools, drop: whenNull, use: useTools},
		{id: nToolChoice, rule: ruleToolChoice},
		{id: nAddGenerationPrompt, use: useTail},
		{id: nContinueFinalMessage, use: useTail},
	}, template, sampling),
	ruleCompletionsRoot: join(shape{
		{id: nModel, use: useModel},
		{id: nPrompt, rule: ruleInputs, use: usePrompt},
		{id: nPromptEmbeds, rule: ruleInputs, drop: whenNull, use: usePrompt},
		{id: nSuffix, drop: whenNull, use: useHead},
	}, template, sampling),
	ruleEmbeddingsRoot: {
		{id: nModel, use: useModel},
		{id: nInput, rule: ruleInputs, use: usePrompt},
		{id: nMessages, rule: ruleMessageList, use: usePrompt},
		{id: nAddGenerationPrompt, use: useTail},
		{id: nContinueFinalMessage, use: useTail},
		{id: nMediaIoKwargs, use: useHead},
		{id: nAddSpecialTokens, use: useHead},
		{id: nCacheSalt, use: useHead},
		{id: nChatTemplate, use: useHead},
		{id: nChatTemplateKwargs, use: useHead},
		{id: nTruncatePromptTokens, use: useHead},
		{id: nTruncationSide, use: useHead},
		{id: nMmProcessorKwargs, use: useHead},
	},
	ruleResponsesRoot: join(shape{
		{id: nModel, use: useModel},
		{id: nInput, rule: ruleItemList, use: usePrompt},
		{id: nInstructions, rule: ruleParts, drop: whenNull, use: useSystem},
		{id: nTools, rule: ruleTools, drop: whenNull | whenNoTools, use: useTools},
		{id: nToolChoice, rule: ruleToolChoice},
		{id: nPreviousResponseId, drop: whenNull, use: useHead},
		{id: nConversation, drop: whenNull, use: useHead},
		{id: nPrompt, drop: whenNull, use: useHead},
		{id: nReasoning, rule: ruleFlat, drop: whenNull, use: useHead},
	}, template, sampling),
	ruleMessagesRoot: join(shape{
		{id: nModel, use: useModel},
		{id: nMessages, rule: ruleMessageList, use: usePrompt},
		{id: nSystem, rule: ruleContent, drop: whenNull, use: useSystem},
		{id: nTools, rule: ruleTools, drop: whenNull | whenNoTools, use: useTools},
		{id: nToolChoice, rule: ruleToolChoice},
		{id: nThinking, rule: ruleFlat, drop: whenNull, use: useHead},     // its type
		{id: nOutputConfig, rule: ruleFlat, drop: whenNull, use: useHead}, // its effort
		mark1, mark2,
	}, template, sampling),

	ruleFlat: {},
	ruleMessage: {
		{id: nRole},
		{id: nContent, rule: ruleContent},
		{id: nToolCalls, rule: ruleToolCalls, drop: whenNull | whenEmpty},
		{id: nToolCallId},
		{id: nName, drop: whenNull},
		{id: nReasoningContent, drop: whenNull},
		{id: nReasoning, drop: whenNull},
		{id: nFunctionCall, rule: ruleFlat, drop: whenNull},
		{id: nRefusal, drop: whenNull},
		{id: nAudio, rule: ruleFlat, drop: whenNull},
		{id: nAnnotations, drop: whenNull},
		mark1, mark2,
	},
	rulePart: {
		{id: nType},
		{id: nText},
		{id: nImageUrl, rule: ruleFlat},
		{id: nVideoUrl, rule: ruleFlat},
		{id: nAudioUrl, rule: ruleFlat},
		{id: nInputAudio, rule: ruleFlat},
		{id: nFile, rule: ruleFlat},
		{id: nSource, rule: ruleFlat},
		{id: nContent, rule: ruleParts}, // of an Anthropic tool_result
		{id: nUuid, drop: whenNull},
		mark1, mark2,
	},
	ruleToolCall: {
		{id: nId},
		{id: nType},
		{id: nFunction, rule: ruleFlat},
		{id: nIndex, drop: whenNull},
	},
	ruleItem: {
		{id: nType},
		{id: nRole},
		{id: nContent, rule: ruleParts},
		{id: nOutput, rule: ruleParts},
		{id: nSummary, rule: ruleParts},
		{id: nId, drop: whenNull},
		{id: nStatus, drop: whenNull},
		{id: nEncryptedContent, drop: whenNull},
		mark1, mark2,
	},
	ruleTool: {
		{id: nType},
		{id: nFunction, rule: ruleToolFunction},
		{id: nName},
		{id: nDescription, drop: whenNull},
		{id: nParameters, rule: ruleSchema, drop: whenNull},
		{id: nInputSchema, rule: ruleSchema},
		{id: nStrict, drop: whenNull},
		{id: nDeferLoading, drop: whenNull},
		mark1, mark2,
	},
	ruleToolFunction: {
		{id: nName},
		{id: nDescription, drop: whenNull},
		{id: nParameters, rule: ruleSchema, drop: whenNull},
		{id: nStrict, drop: whenNull},
		{id: nDeferLoading, drop: whenNull},
		mark1, mark2,
	},
	ruleToolChoice: {
		{id: nFunction, rule: ruleFlat},
	},
})

func named(shapes [ruleToolChoice + 1]shape) [ruleToolChoice + 1]shape {
	for _, s := range shapes {
		for i := range s {
			s[i].name = knownNames[s[i].id]
		}
	}
	return shapes
}

// rootRule is the shape of the root of each API.
var rootRule = [...]rule{
	Chat: ruleChatRoot, Completions: ruleCompletionsRoot, Embeddings: ruleEmbeddingsRoot,
	Responses: ruleResponsesRoot, Messages: ruleMessagesRoot,
}

// fields is shapes by name: what a rule says about a member. It is filled once
// and never changed.
var fields = func() (table [ruleCount][nameCount]field) {
	for r, s := range shapes {
		for _, f := range s {
			table[r][f.id] = f
		}
	}
	return table
}()
