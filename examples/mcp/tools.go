package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sashabaranov/go-openai"
)

// list asks an MCP server for its tools, as go-openai's types have them.
func list(ctx context.Context, server *mcp.ClientSession) (all []openai.Tool, err error) {
	for tool, err := range server.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		all = append(all, openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
			Name: tool.Name, Description: tool.Description, Parameters: tool.InputSchema}})
	}
	return all, nil
}

// use calls a tool. What it says of a mistake is for the model to read.
func use(ctx context.Context, server *mcp.ClientSession, call openai.FunctionCall) (string, error) {
	result, err := server.CallTool(ctx, &mcp.CallToolParams{Name: call.Name, Arguments: json.RawMessage(call.Arguments)})
	if err != nil {
		return "", err
	}
	var text []string
	for _, part := range result.Content {
		if t, ok := part.(*mcp.TextContent); ok {
			text = append(text, t.Text)
		}
	}
	return strings.Join(text, "\n"), nil
}
