package vllmsim

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// apiError is an error answer in vLLM's form.
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

func (e *apiError) Error() string { return e.Message }

func badRequest(format string, args ...any) *apiError {
	return &apiError{Message: fmt.Sprintf(format, args...), Type: "BadRequestError", Code: http.StatusBadRequest}
}

// badParam is a refusal by vLLM itself, which names the parameter.
func badParam(param, format string, args ...any) *apiError {
	e := badRequest(format+" (parameter=%s)", append(args, param)...)
	e.Param = &param
	return e
}

// invalidBody is what the validation layer in front of vLLM answers; where is
// the path to the fault, such as body.temperature.
func invalidBody(where, format string, args ...any) *apiError {
	return &apiError{Message: fmt.Sprintf("1 validation error:\n  {'loc': '%s', 'msg': '%s'}", where, fmt.Sprintf(format, args...)),
		Type: "Bad Request", Param: &where, Code: http.StatusBadRequest}
}

func unknownModel(name string) *apiError {
	param := "model"
	return &apiError{Message: fmt.Sprintf("The model `%s` does not exist.", name), Type: "NotFoundError",
		Param: &param, Code: http.StatusNotFound}
}

func tooLong(limit int) *apiError {
	return badParam("input_tokens", "This model's maximum context length is %d tokens. However, your prompt contains at least %d "+
		"input tokens, which exceeds this limit even without any output tokens.", limit, limit+1)
}

func busy() *apiError {
	return &apiError{Message: "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.",
		Type: "Service Unavailable", Code: http.StatusServiceUnavailable}
}

func emptyTools() *apiError {
	return badParam("tools", "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely.")
}

// shuttingDown is what vLLM 0.32 answers to a chat when it drains: the threads
// that render templates have stopped, the engine has not.
func shuttingDown() *apiError {
	return &apiError{Message: "cannot schedule new futures after shutdown", Type: "InternalServerError", Code: http.StatusInternalServerError}
}

func internalError() *apiError {
	return &apiError{Message: "Internal server error", Type: "InternalServerError", Code: http.StatusInternalServerError}
}

// statusError is the body for a status that a Fault asks for.
func statusError(code int) *apiError {
	switch code {
	case http.StatusServiceUnavailable:
		return busy()
	case http.StatusInternalServerError:
		return internalError()
	case http.StatusTooManyRequests:
		return &apiError{Message: "Too many requests.", Type: "RateLimitError", Code: code}
	}
	return &apiError{Message: http.StatusText(code) + " (asked for by a test)", Type: "BadRequestError", Code: code}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // only this package's own types come here
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body)
}

func writeError(w http.ResponseWriter, e *apiError) {
	writeJSON(w, e.Code, map[string]*apiError{"error": e})
}
