package vllmsim

import "strings"

// words are the vocabulary of answers. Each is one token with the space before
// it, so that an answer of n words is n tokens, also when it comes back as part
// of a later prompt.
var words = strings.Fields(`
	time year people way day man thing woman life child world school state family
	student group country problem hand part place case week company system program
	answer work number night point home water room mother area money story fact
	month lot right study book eye job word issue side kind head house service
	friend father power hour game line end member law car city name team minute
	idea kid body back parent face others level office door health person art war
	history party result change morning reason girl guy moment air teacher force
	the of and to in that for on with as by at from into over after then when
`)

// answerSeed says which answer a prompt gets: the same on every instance.
func answerSeed(prompt []uint32, seed int64, choice int) uint64 {
	h := mix(uint64(seed)) ^ mix(uint64(choice)+0x5eed)
	for _, t := range prompt {
		h = mix(h ^ uint64(t))
	}
	return h
}

// answerLength draws how long an answer is when nothing cuts it: uniform
// between a sixteenth of longest and longest.
func answerLength(seed uint64, longest int) int {
	least := max(1, longest/16)
	return least + int(mix(seed^0x1e4674)%uint64(longest-least+1))
}

// answerWord returns the i-th piece of an answer.
func answerWord(seed uint64, i int) string {
	w := words[mix(seed+uint64(i))%uint64(len(words))]
	if i == 0 {
		return w
	}
	return " " + w
}

// answerText returns pieces from up to to.
func answerText(seed uint64, from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		b.WriteString(answerWord(seed, i))
	}
	return b.String()
}
