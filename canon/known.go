package canon

import (
	"bytes"
	"encoding/binary"
	"sort"
)

// nameID is a member name that some rule knows, or 0. Names are recognised
// once, while parsing; from there on they are compared as numbers, which are
// in the byte order of the names.
type nameID uint8

const (
	nUnknown nameID = iota
	nDefs
	nRef
	nSchema
	nAddGenerationPrompt
	nAddSpecialTokens
	nAdditionalItems
	nAdditionalProperties
	nAllOf
	nAnnotations
	nAnyOf
	nArguments
	nAudio
	nAudioUrl
	nCacheControl
	nCacheSalt
	nCallId
	nChatTemplate
	nChatTemplateKwargs
	nConst
	nContains
	nContent
	nContentSchema
	nContinueFinalMessage
	nConversation
	nDefault
	nDeferLoading
	nDefinitions
	nDependentSchemas
	nDescription
	nDetail
	nDocuments
	nEffort
	nElse
	nEncryptedContent
	nEnum
	nExamples
	nFile
	nFormat
	nFunction
	nFunctionCall
	nFunctions
	nGuidedChoice
	nGuidedGrammar
	nGuidedJson
	nGuidedRegex
	nId
	nIf
	nImageUrl
	nIncludeUsage
	nIndex
	nInput
	nInputAudio
	nInputSchema
	nInstructions
	nItems
	nLogitBias
	nMaxItems
	nMaxLength
	nMaxCompletionTokens
	nMaxOutputTokens
	nMaxTokens
	nMaximum
	nMediaIoKwargs
	nMessages
	nMetadata
	nMinItems
	nMinLength
	nMinP
	nMinimum
	nMmProcessorKwargs
	nModel
	nName
	nNot
	nOneOf
	nOutput
	nOutputConfig
	nOutputFormat
	nParameters
	nPattern
	nPatternProperties
	nPrefixItems
	nPreviousResponseId
	nPrompt
	nPromptCacheBreakpoint
	nPromptCacheKey
	nPromptEmbeds
	nProperties
	nPropertyNames
	nReasoning
	nReasoningContent
	nReasoningEffort
	nRefusal
	nRequired
	nResponseFormat
	nRole
	nSafetyIdentifier
	nSeed
	nServiceTier
	nSource
	nStatus
	nStop
	nStopSequences
	nStream
	nStreamOptions
	nStrict
	nStructuralTag
	nStructuredOutputs
	nSuffix
	nSummary
	nSystem
	nTemperature
	nText
	nThen
	nThinking
	nTitle
	nToolCallId
	nToolCalls
	nToolChoice
	nToolUseId
	nTools
	nTopK
	nTopP
	nTruncatePromptTokens
	nTruncationSide
	nType
	nUnevaluatedItems
	nUnevaluatedProperties
	nUrl
	nUser
	nUuid
	nVideoUrl
	nameCount
)

var knownNames = [nameCount]string{
	nDefs:                  "$defs",
	nRef:                   "$ref",
	nSchema:                "$schema",
	nAddGenerationPrompt:   "add_generation_prompt",
	nAddSpecialTokens:      "add_special_tokens",
	nAdditionalItems:       "additionalItems",
	nAdditionalProperties:  "additionalProperties",
	nAllOf:                 "allOf",
	nAnnotations:           "annotations",
	nAnyOf:                 "anyOf",
	nArguments:             "arguments",
	nAudio:                 "audio",
	nAudioUrl:              "audio_url",
	nCacheControl:          "cache_control",
	nCacheSalt:             "cache_salt",
	nCallId:                "call_id",
	nChatTemplate:          "chat_template",
	nChatTemplateKwargs:    "chat_template_kwargs",
	nConst:                 "const",
	nContains:              "contains",
	nContent:               "content",
	nContentSchema:         "contentSchema",
	nContinueFinalMessage:  "continue_final_message",
	nConversation:          "conversation",
	nDefault:               "default",
	nDeferLoading:          "defer_loading",
	nDefinitions:           "definitions",
	nDependentSchemas:      "dependentSchemas",
	nDescription:           "description",
	nDetail:                "detail",
	nDocuments:             "documents",
	nEffort:                "effort",
	nElse:                  "else",
	nEncryptedContent:      "encrypted_content",
	nEnum:                  "enum",
	nExamples:              "examples",
	nFile:                  "file",
	nFormat:                "format",
	nFunction:              "function",
	nFunctionCall:          "function_call",
	nFunctions:             "functions",
	nGuidedChoice:          "guided_choice",
	nGuidedGrammar:         "guided_grammar",
	nGuidedJson:            "guided_json",
	nGuidedRegex:           "guided_regex",
	nId:                    "id",
	nIf:                    "if",
	nImageUrl:              "image_url",
	nIncludeUsage:          "include_usage",
	nIndex:                 "index",
	nInput:                 "input",
	nInputAudio:            "input_audio",
	nInputSchema:           "input_schema",
	nInstructions:          "instructions",
	nItems:                 "items",
	nLogitBias:             "logit_bias",
	nMaxItems:              "maxItems",
	nMaxLength:             "maxLength",
	nMaxCompletionTokens:   "max_completion_tokens",
	nMaxOutputTokens:       "max_output_tokens",
	nMaxTokens:             "max_tokens",
	nMaximum:               "maximum",
	nMediaIoKwargs:         "media_io_kwargs",
	nMessages:              "messages",
	nMetadata:              "metadata",
	nMinItems:              "minItems",
	nMinLength:             "minLength",
	nMinP:                  "min_p",
	nMinimum:               "minimum",
	nMmProcessorKwargs:     "mm_processor_kwargs",
	nModel:                 "model",
	nName:                  "name",
	nNot:                   "not",
	nOneOf:                 "oneOf",
	nOutput:                "output",
	nOutputConfig:          "output_config",
	nOutputFormat:          "output_format",
	nParameters:            "parameters",
	nPattern:               "pattern",
	nPatternProperties:     "patternProperties",
	nPrefixItems:           "prefixItems",
	nPreviousResponseId:    "previous_response_id",
	nPrompt:                "prompt",
	nPromptCacheBreakpoint: "prompt_cache_breakpoint",
	nPromptCacheKey:        "prompt_cache_key",
	nPromptEmbeds:          "prompt_embeds",
	nProperties:            "properties",
	nPropertyNames:         "propertyNames",
	nReasoning:             "reasoning",
	nReasoningContent:      "reasoning_content",
	nReasoningEffort:       "reasoning_effort",
	nRefusal:               "refusal",
	nRequired:              "required",
	nResponseFormat:        "response_format",
	nRole:                  "role",
	nSafetyIdentifier:      "safety_identifier",
	nSeed:                  "seed",
	nServiceTier:           "service_tier",
	nSource:                "source",
	nStatus:                "status",
	nStop:                  "stop",
	nStopSequences:         "stop_sequences",
	nStream:                "stream",
	nStreamOptions:         "stream_options",
	nStrict:                "strict",
	nStructuralTag:         "structural_tag",
	nStructuredOutputs:     "structured_outputs",
	nSuffix:                "suffix",
	nSummary:               "summary",
	nSystem:                "system",
	nTemperature:           "temperature",
	nText:                  "text",
	nThen:                  "then",
	nThinking:              "thinking",
	nTitle:                 "title",
	nToolCallId:            "tool_call_id",
	nToolCalls:             "tool_calls",
	nToolChoice:            "tool_choice",
	nToolUseId:             "tool_use_id",
	nTools:                 "tools",
	nTopK:                  "top_k",
	nTopP:                  "top_p",
	nTruncatePromptTokens:  "truncate_prompt_tokens",
	nTruncationSide:        "truncation_side",
	nType:                  "type",
	nUnevaluatedItems:      "unevaluatedItems",
	nUnevaluatedProperties: "unevaluatedProperties",
	nUrl:                   "url",
	nUser:                  "user",
	nUuid:                  "uuid",
	nVideoUrl:              "video_url",
}

// knownSlots is an open-addressed table of the known names, four times as
// large as their number. It is filled once and never changed.
var knownSlots = func() (slots [knownSize]knownSlot) {
	for id := nUnknown + 1; id < nameCount; id++ {
		text := []byte(knownNames[id])
		at := slotOf(headWord(text), len(text))
		for slots[at].id != nUnknown {
			at = (at + 1) % knownSize
		}
		slots[at] = knownSlot{word: headWord(text), size: uint8(len(text)), id: id}
	}
	return slots
}()

const knownSize = 512

type knownSlot struct {
	word uint64 // headWord of the name
	size uint8
	id   nameID
}

// slotOf mixes the first bytes and the length of a name (Fibonacci hashing).
func slotOf(word uint64, size int) int {
	return int((word + uint64(size)) * 0x9E3779B97F4A7C15 >> (64 - 9))
}

// headWord returns the first eight bytes of b, padded with zeros.
func headWord(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.LittleEndian.Uint64(b)
	}
	var w uint64
	for i := len(b) - 1; i >= 0; i-- {
		w = w<<8 | uint64(b[i])
	}
	return w
}

// recognise returns the id of a name, given its headWord.
func recognise(text []byte, word uint64) nameID {
	for at := slotOf(word, len(text)); ; at = (at + 1) % knownSize {
		s := &knownSlots[at]
		if s.id == nUnknown {
			return nUnknown
		}
		if s.word == word && int(s.size) == len(text) && (len(text) <= 8 || knownNames[s.id] == string(text)) {
			return s.id
		}
	}
}

// nameRank returns a number that orders names: equal numbers only for names
// that no rule knows and that lie between the same two known ones.
func nameRank(id nameID, text []byte) uint64 {
	if id != nUnknown {
		return 2 * uint64(id)
	}
	below := sort.Search(int(nameCount)-1, func(i int) bool {
		return bytes.Compare([]byte(knownNames[i+1]), text) >= 0
	})
	return 2*uint64(below) + 1
}
