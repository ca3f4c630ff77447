package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// connect starts an MCP server in this process and returns a session with it.
// A server of yours would be reached by mcp.CommandTransport or
// mcp.StreamableClientTransport instead.
func connect(ctx context.Context) (*mcp.ClientSession, error) {
	ours, theirs := mcp.NewInMemoryTransports()
	if _, err := museum().Connect(ctx, theirs, nil); err != nil {
		return nil, err
	}
	return mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(ctx, ours, nil)
}

// museum is a server with a dozen tools. Many servers keep their tools in a map
// whose order differs from process to process; this one draws an order for
// itself.
func museum() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "museum", Version: "1"}, nil)
	for _, t := range museumTools {
		s.AddTool(&mcp.Tool{Name: t.name, Description: t.description, InputSchema: json.RawMessage(t.parameters)}, lookUp)
	}
	order := rand.Perm(len(museumTools))
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, request)
			if listed, ok := result.(*mcp.ListToolsResult); ok && len(listed.Tools) == len(order) {
				tools := make([]*mcp.Tool, len(order))
				for i, at := range order {
					tools[at] = listed.Tools[i]
				}
				listed.Tools = tools
			}
			return result, err
		}
	})
	return s
}

// lookUp makes up what a tool finds: the same for the same question.
func lookUp(_ context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	h := fnv.New64a()
	fmt.Fprint(h, request.Params.Name, string(request.Params.Arguments))
	lots := rand.New(rand.NewPCG(h.Sum64(), 0))
	var text strings.Builder
	for range 3 + lots.IntN(4) {
		fmt.Fprintf(&text, "inventory %d: %s of %s, %d, room %d; ", 1000+lots.IntN(9000),
			things[lots.IntN(len(things))], materials[lots.IntN(len(materials))], 1500+lots.IntN(450), 1+lots.IntN(40))
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text.String()}}}, nil
}

var (
	things    = strings.Fields("lamp clock bowl chair map mask coin loom lens bell")
	materials = strings.Fields("brass oak glass silver clay linen ivory iron")
)

var museumTools = []struct{ name, description, parameters string }{
	{"find_objects", "Objects whose record contains a text, the oldest first.",
		`{"type":"object","properties":{"text":{"type":"string"},"limit":{"type":"integer","minimum":1,"maximum":50}},"required":["text"]}`},
	{"read_record", "The whole record of an object.",
		`{"type":"object","properties":{"inventory":{"type":"integer","description":"Four digits."}},"required":["inventory"]}`},
	{"list_rooms", "The rooms that are open on a day, with what they show.",
		`{"type":"object","properties":{"day":{"type":"string","enum":["tuesday","wednesday","thursday","friday","saturday","sunday"]}},"required":["day"]}`},
	{"locate_object", "Where an object is now: a room, the depot, the workshop, or on loan.",
		`{"type":"object","properties":{"inventory":{"type":"integer"}},"required":["inventory"]}`},
	{"list_loans", "Objects that are on loan, to whom, and until when.",
		`{"type":"object","properties":{"borrower":{"type":"string","description":"Leave it out for all."},"ending":{"type":"integer","description":"A year."}}}`},
	{"find_maker", "Makers and workshops by name or by place.",
		`{"type":"object","properties":{"name":{"type":"string"},"place":{"type":"string"}}}`},
	{"works_of_maker", "What the collection has of a maker.",
		`{"type":"object","properties":{"maker":{"type":"string"},"from":{"type":"integer"},"to":{"type":"integer"}},"required":["maker"]}`},
	{"restoration_log", "What was done to an object, when and by whom, the latest first.",
		`{"type":"object","properties":{"inventory":{"type":"integer"}},"required":["inventory"]}`},
	{"list_events", "Tours, talks and workshops in a month.",
		`{"type":"object","properties":{"month":{"type":"integer","minimum":1,"maximum":12},"language":{"type":"string"}},"required":["month"]}`},
	{"opening_hours", "When the house, the library or the café is open.",
		`{"type":"object","properties":{"where":{"type":"string","enum":["house","library","café"]}},"required":["where"]}`},
	{"search_library", "Books and catalogues about a subject.",
		`{"type":"object","properties":{"subject":{"type":"string"},"author":{"type":"string"},"since":{"type":"integer"}},"required":["subject"]}`},
	{"report_error", "Takes down that a record is wrong, for the registrar.",
		`{"type":"object","properties":{"inventory":{"type":"integer"},"what":{"type":"string"}},"required":["inventory","what"]}`},
}
