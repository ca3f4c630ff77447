package middleware

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/prefixwise/prefixwise/canon"
)

// Whoever may send prompts to an engine with a prefix cache can find out, by
// how fast answers begin, what others have sent (CVE-2025-46570; arXiv
// 2411.18191, 2502.07776). vLLM keeps requests with different cache_salt
// apart. A salt that a tenant could choose would be no protection, so it is
// made of a secret and of the tenant's name, which trusted code puts into the
// context.

// withSalt sets the cache_salt of a tenant's request, in the APIs of vLLM that
// have the field. A salt that the request has already still separates, within
// the tenant.
func withSalt(body []byte, api canon.API, secret []byte, tenant string) ([]byte, error) {
	switch {
	case len(secret) == 0 || tenant == "":
		return body, nil
	case api == canon.Unknown || api == canon.Messages:
		return body, nil
	}
	salt, err := json.Marshal(tenantSalt(secret, tenant, ownSalt(body)))
	if err != nil {
		return nil, err
	}
	salted, err := canon.Merge(body, map[string]json.RawMessage{"cache_salt": salt})
	if err != nil {
		return nil, fmt.Errorf("setting the tenant's cache_salt: %w", err)
	}
	return salted, nil
}

// tenantSalt is the HMAC-SHA256, under the secret, of the tenant's name and the
// request's own salt, each with its length before it; in base64url, whose
// characters vLLM allows.
func tenantSalt(secret []byte, tenant, own string) string {
	mac := hmac.New(sha256.New, secret)
	for _, part := range []string{tenant, own} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// ownSalt returns the cache_salt that a request has, "" if it has none.
func ownSalt(body []byte) string {
	if !bytes.Contains(body, []byte(`salt`)) {
		return ""
	}
	var r struct {
		Salt string `json:"cache_salt"`
	}
	_ = json.Unmarshal(body, &r) // one of another type is replaced, and the engine would refuse it
	return r.Salt
}
