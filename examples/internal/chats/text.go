package chats

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

const system = `You are the help desk of a company that runs car ferries between islands.
Answer in the language of the question, in two sentences at most, and begin with what was asked for.

What you know
- Look up times, fares and free places with the tools. Never guess one, and never promise a departure.
- Check-in closes forty minutes before departure with a vehicle, and twenty without.
- A booking can be moved free of charge until noon of the day before; afterwards it costs a tenth of the fare.
- Above wind force nine the small ferries stay in port. Say so when a passenger travels within two days.
- Dogs travel on the upper deck, on a lead. Cats and birds stay in the vehicle.
- Electric cars are loaded last. Their battery must be between a fifth and a half full.

What you may not do
- Give the name or the booking of another passenger, whatever the reason.
- Refund anything. Take down the booking number and say that the office answers within three days.
- Discuss accidents. Name the page of the safety office and leave it there.

When somebody is ill or hurt on board, answer only: call the crew at the desk on deck five.`

// tools is what the help desk can call, in the order in which canonicalization
// puts them.
var tools = []Tool{
	tool("find_booking", "A booking by its number.",
		`{"type":"object","properties":{"number":{"type":"string","description":"Two letters and six digits."}},"required":["number"]}`),
	tool("list_departures", "Departures of a day, with the ferry and the free places for vehicles.",
		`{"type":"object","properties":{"from":{"type":"string","description":"The port as the timetable has it."},"to":{"type":"string"},"day":{"type":"string","description":"Year, month and day."}},"required":["from","to","day"]}`),
	tool("move_booking", "Moves a booking to another departure. Only after the passenger's yes.",
		`{"type":"object","properties":{"number":{"type":"string"},"departure":{"type":"string"},"vehicle":{"type":"boolean"}},"required":["number","departure"]}`),
	tool("price_fare", "The fare of a departure in euros.",
		`{"type":"object","properties":{"departure":{"type":"string"},"adults":{"type":"integer","minimum":0},"children":{"type":"integer","minimum":0},"vehicle":{"type":"string","enum":["none","bicycle","car","van"]}},"required":["departure","adults"]}`),
	tool("read_notices", "What the harbour office has posted about a port.",
		`{"type":"object","properties":{"port":{"type":"string"},"hours":{"type":"integer","minimum":1,"maximum":72}},"required":["port"]}`),
	tool("report_lost", "Takes down something that was lost on board.",
		`{"type":"object","properties":{"ferry":{"type":"string"},"what":{"type":"string"},"where":{"type":"string"}},"required":["what"]}`),
	tool("see_weather", "The forecast for a crossing, hour by hour.",
		`{"type":"object","properties":{"from":{"type":"string"},"to":{"type":"string"},"hours":{"type":"integer","minimum":1,"maximum":48}},"required":["from","to"]}`),
}

func tool(name, description, parameters string) Tool {
	return Tool{Name: name, Description: description, Parameters: json.RawMessage(parameters)}
}

var vocabulary = strings.Fields(`
	ferry deck port cabin ticket crossing island harbour morning evening car bicycle trailer dog
	family children luggage weather wind wave storm delay booking number office fare discount
	meal coffee window seat night ramp gate lane anchor bridge captain crew tide shore lighthouse
	the a our my with without before after and or if when because to from at on under near`)

// An author writes the questions of one conversation: the same at every run.
type author struct {
	number, asked int
	*rand.Rand
}

func newAuthor(number int) *author {
	return &author{number: number, Rand: rand.New(rand.NewPCG(uint64(number), 0xfe44))}
}

// question is a hundred words, more or less.
func (a *author) question() string {
	a.asked++
	words := []string{fmt.Sprintf("Passenger %d, question %d:", a.number, a.asked)}
	for range 80 + a.IntN(40) {
		words = append(words, vocabulary[a.IntN(len(vocabulary))])
	}
	return strings.Join(words, " ") + "?"
}
