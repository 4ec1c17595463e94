// A charge is made, paid and read by the client that oapi-codegen made of the OpenAPI document.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"

	"programs/client"
)

// What answers something else than what was asked for ends the program.
func must[Answer any](answer Answer, err error) Answer {
	if err != nil {
		log.Fatal(err)
	}
	return answer
}

func main() {
	ctx := context.Background()
	amount := must(strconv.ParseInt(os.Getenv("AMOUNT"), 10, 64))
	id, secret := os.Getenv("CLIENT_ID"), os.Getenv("CLIENT_SECRET")
	var token string
	authorize := func(_ context.Context, request *http.Request) error {
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		return nil
	}
	pix := must(client.NewClientWithResponses(os.Getenv("BASE_URL"), client.WithRequestEditorFn(authorize)))

	grant := client.Grant{GrantType: "client_credentials", ClientId: &id, ClientSecret: &secret}
	token = must(pix.RequestOauthTokenWithFormdataBodyWithResponse(ctx, nil, grant)).JSON200.AccessToken
	request := client.CreateChargeRequest{Key: os.Getenv("PIX_KEY"), Amount: amount}
	made := must(pix.CreateChargeWithResponse(ctx, nil, request)).JSON200.Data
	payment := client.PaymentRequest{Emv: &made.Emvqrcps}
	paid := must(pix.SandboxPayWithResponse(ctx, nil, payment)).JSON200.Data
	read := must(pix.GetChargeByIdWithResponse(ctx, made.Id, nil)).JSON200.Data
	absent := must(pix.GetChargeByIdWithResponse(ctx, 1<<53-1, nil)).JSON404.Error

	var received int64
	for _, event := range must(pix.ListEventsWithResponse(ctx, nil)).JSON200.Data {
		if transfer := must(event.AsTransferEvent()); transfer.Name == client.TransferEventNameTransferInConfirmed {
			received = transfer.Payload.Amount
			break
		}
	}
	said := must(json.Marshal(map[string]any{
		"made": made.Status, "paid": paid.Status, "read": read.Status, "amount": read.Amount,
		"absent": absent.Code, "received": received,
	}))
	fmt.Println(string(said))
}
