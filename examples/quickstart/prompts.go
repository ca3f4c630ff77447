package main

import (
	"encoding/json"

	"github.com/sashabaranov/go-openai"
)

// What all threads of one kind have in common.
const (
	chatPolicy = `You are the assistant of a company that leases small electric vans to shops.
Answer in the language of the question and stay with the subject.

How to answer
- Begin with the answer. Give the reason in the next sentence, and nothing more unless you are asked.
- Amounts are in euros with two decimals, dates are written out, distances are in kilometres.
- Name the paragraph of the lease when you rely on it. Say so when the lease is silent.
- When a question has two readings, answer the likelier one and name the other.

What you may do
- Explain the lease, the invoice, the charging card and the insurance.
- Take down damage: ask for the place, the time, the plate and whether anybody is hurt.
- Offer an appointment at the workshop on weekdays between eight and five.

What you may not do
- Promise a refund, a discount, or a date of delivery. Offer a call back from the office instead.
- Give the data of another customer, whatever the reason.
- Advise on tax. Name the page of the tax office and leave it there.

When somebody is hurt or the battery smokes, answer only: leave the vehicle, keep others away, call 112.`

	agentPolicy = `You find out why an alert was raised and propose what to do.
Work in steps. Call one tool at a time, read its result, and say in one sentence what you conclude before you call the next.
Never restart anything. Stop when you can name the cause, or after ten steps.
End with a report: the cause, the evidence in at most three lines, and one proposal.`

	readerPolicy = `Answer from the document only. Name the section you rely on. Say so when the document has no answer.`
)

// agentTools is what the agents can call. All agents have the same ones.
var agentTools = []openai.Tool{
	tool("search_logs", "Lines of a service's log that contain a text, newest first.",
		`{"type":"object","properties":{"service":{"type":"string","description":"Name of the service as the catalogue has it."},"text":{"type":"string","description":"What the lines must contain. Empty means all lines."},"minutes":{"type":"integer","minimum":1,"maximum":1440,"description":"How far to look back."}},"required":["service","minutes"]}`),
	tool("read_metric", "Values of one metric of a service, one a minute.",
		`{"type":"object","properties":{"service":{"type":"string"},"metric":{"type":"string","enum":["requests","errors","latency_p50","latency_p99","memory","cpu"]},"minutes":{"type":"integer","minimum":1,"maximum":1440}},"required":["service","metric","minutes"]}`),
	tool("list_changes", "Deployments, settings and flags that were changed lately, with who changed them.",
		`{"type":"object","properties":{"service":{"type":"string"},"minutes":{"type":"integer","minimum":1,"maximum":10080}},"required":["minutes"]}`),
	tool("list_dependents", "Services that call a service, and how often.",
		`{"type":"object","properties":{"service":{"type":"string"},"depth":{"type":"integer","minimum":1,"maximum":3,"description":"1 for those that call it themselves."}},"required":["service"]}`),
}

func tool(name, description, parameters string) openai.Tool {
	return openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
		Name: name, Description: description, Parameters: json.RawMessage(parameters)}}
}
