// golang.org/x/oauth2 logs in by client credentials in both ways of the standard, calls once, and is refused with a wrong secret.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

func open(secret string, style oauth2.AuthStyle) clientcredentials.Config {
	return clientcredentials.Config{
		ClientID:     os.Getenv("CLIENT_ID"),
		ClientSecret: secret,
		TokenURL:     os.Getenv("BASE_URL") + "/oauth/token",
		Scopes:       []string{"ledger.read"},
		AuthStyle:    style,
	}
}

func main() {
	ctx := context.Background()
	var statuses []int
	for _, style := range []oauth2.AuthStyle{oauth2.AuthStyleInHeader, oauth2.AuthStyleInParams} {
		config := open(os.Getenv("CLIENT_SECRET"), style)
		answer, err := config.Client(ctx).Get(os.Getenv("BASE_URL") + "/v1/connect/balance")
		if err != nil {
			log.Fatal(err)
		}
		answer.Body.Close()
		statuses = append(statuses, answer.StatusCode)
	}
	wrong := open("wrong", oauth2.AuthStyleInHeader)
	_, err := wrong.Token(ctx)
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) {
		log.Fatal("a wrong secret was taken: ", err)
	}
	said, err := json.Marshal(map[string]any{"statuses": statuses, "refused": refused.ErrorCode})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(said))
}
