package canon

// promptUse says what a member of the root is for the prompt, as the shapes of
// the writer do.
func promptUse(api API, name string) use {
	switch name {
	case "model":
		return useModel
	case "tools", "functions":
		if api == Chat || name == "tools" && (api == Responses || api == Messages) {
			return useTools
		}
	case "instructions":
		if api == Responses {
			return useSystem
		}
	case "system":
		if api == Messages {
			return useSystem
		}
	case "messages":
		if api == Chat || api == Messages || api == Embeddings {
			return usePrompt
		}
	case "input":
		if api == Responses || api == Embeddings {
			return usePrompt
		}
	case "prompt":
		switch api {
		case Completions:
			return usePrompt
		case Responses:
			return useHead
		}
	case "prompt_embeds":
		if api == Completions {
			return usePrompt
		}
	case "suffix":
		if api == Completions {
			return useHead
		}
	case "previous_response_id", "conversation", "reasoning":
		if api == Responses {
			return useHead
		}
	case "thinking", "output_config":
		if api == Messages {
			return useHead
		}
	case "add_generation_prompt", "continue_final_message":
		if api == Chat || api == Embeddings {
			return useTail
		}
	case "add_special_tokens", "cache_salt", "chat_template", "chat_template_kwargs",
		"truncate_prompt_tokens", "truncation_side", "mm_processor_kwargs", "media_io_kwargs":
		return useHead
	case "documents", "reasoning_effort":
		if api != Embeddings {
			return useHead
		}
	}
	return useOther
}
