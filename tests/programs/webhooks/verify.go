package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// EXAMPLES
func main() {
	body, _ := os.ReadFile("body")
	cases, _ := os.ReadFile("cases")
	jwks, _ := os.ReadFile("jwks")
	var keys keySet
	if err := json.Unmarshal(jwks, &keys); err != nil {
		panic(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(cases)), "\n") {
		words := strings.Split(line, "\t")
		headers := http.Header{}
		for _, word := range words[2:] {
			name, value, _ := strings.Cut(word, "=")
			headers.Set(name, value)
		}
		if words[0] == "verifyJws" {
			fmt.Println(verifyJWS(keys, words[1], headers, body))
			continue
		}
		tolerance := 1000000 * time.Hour
		if words[0] == "verify" {
			tolerance = 5 * time.Minute
		}
		fmt.Println(verify(words[1], headers, body, tolerance))
	}
}
