package main

import (
	"encoding/json"
	"fmt"

	"github.com/sashabaranov/go-openai"
)

const policy = `You serve the customers of a bicycle workshop.
Look things up with the tools; never guess a price, a stock or a date. Call the tools that do not depend on each other together.
Before you book anything, say what it costs and when it will be done, and wait for a yes.
A repair of more than 150 euros needs the workshop's own estimate: say so and book an inspection instead.
Brakes go first: a bicycle whose brakes fail is never booked for anything else before they are done.
Answer in two sentences at most.`

// tools is what an agent can call.
var tools = []openai.Tool{
	tool("find_bicycle", "A customer's bicycle by the number on its frame.",
		`{"type":"object","properties":{"frame":{"type":"string","description":"Two letters and four digits."}},"required":["frame"]}`),
	tool("check_part", "Whether a part is in stock, and its price in euros.",
		`{"type":"object","properties":{"part":{"type":"string"},"model":{"type":"string","description":"The bicycle's model as find_bicycle gives it."}},"required":["part","model"]}`),
	tool("free_hours", "When the workshop has time on a day.",
		`{"type":"object","properties":{"day":{"type":"string","enum":["monday","tuesday","wednesday","thursday","friday"]}},"required":["day"]}`),
	tool("book_repair", "Books a repair. Only after the customer's yes.",
		`{"type":"object","properties":{"frame":{"type":"string"},"part":{"type":"string"},"day":{"type":"string"},"hour":{"type":"integer","minimum":8,"maximum":17}},"required":["frame","part","day","hour"]}`),
}

func tool(name, description, parameters string) openai.Tool {
	return openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
		Name: name, Description: description, Parameters: json.RawMessage(parameters)}}
}

var (
	models = []string{"Kestrel 3", "Heron City", "Plover e-7", "Wren Kids"}
	parts  = []string{"brake pad", "chain", "rear wheel", "gear cable", "dynamo"}
	days   = []string{"monday", "tuesday", "wednesday", "thursday", "friday"}
)

// arguments has the members of all tools.
type arguments struct {
	Frame string `json:"frame,omitempty"`
	Part  string `json:"part,omitempty"`
	Model string `json:"model,omitempty"`
	Day   string `json:"day,omitempty"`
	Hour  int    `json:"hour,omitempty"`
}

// use runs a tool. What it says of a mistake is for the model to read.
func use(call openai.FunctionCall) string {
	var a arguments
	if err := json.Unmarshal([]byte(call.Arguments), &a); err != nil {
		return fmt.Sprintf(`{"error":"the arguments are not valid: %T"}`, err)
	}
	number := 0
	for _, r := range a.Frame + a.Part + a.Day {
		number += int(r)
	}
	switch call.Name {
	case "find_bicycle":
		return fmt.Sprintf(`{"frame":%q,"model":%q,"bought":"%d-04-12","repairs":[{"part":"chain","done":"2025-09-30"}]}`,
			a.Frame, models[number%len(models)], 2018+number%7)
	case "check_part":
		return fmt.Sprintf(`{"part":%q,"model":%q,"stock":%d,"price":%d.50,"minutes":%d}`,
			a.Part, a.Model, number%5, 12+number%80, 20+number%60)
	case "free_hours":
		return fmt.Sprintf(`{"day":%q,"free":[%d,%d]}`, a.Day, 8+number%4, 13+number%4)
	case "book_repair":
		return fmt.Sprintf(`{"booked":true,"number":"R-%d"}`, 1000+number)
	}
	return fmt.Sprintf(`{"error":"there is no tool %q"}`, call.Name)
}

// workshop returns a dozen customers. Their agents are made to call tools where
// the model calls none.
func workshop(made bool) []session {
	const customers = 12
	all := make([]session, customers)
	for i := range all {
		frame := fmt.Sprintf("KB%04d", 1017*(i+1))
		part, day := parts[i%len(parts)], days[i%len(days)]
		c := customer{name: "workshop-" + frame, says: []string{
			fmt.Sprintf("Hello, the %s of my bicycle %s makes trouble. What would a new one cost, and do you have time on %s?", part, frame, day),
			"Yes, please book it.",
			"Thank you. How long will it take?",
		}}
		if made {
			c.must = []string{"find_bicycle", "check_part", "free_hours", "", "book_repair", "", ""}
		}
		all[i] = session{id: c.name, live: c.serve}
	}
	return all
}
