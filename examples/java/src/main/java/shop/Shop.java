package shop;

import com.fasterxml.jackson.core.JsonProcessingException;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import streamfleet.ApiClient;
import streamfleet.ApiException;
import streamfleet.api.DeadLettersApi;
import streamfleet.api.DeadLettersApi.APIListLettersRequest;
import streamfleet.api.JobsApi;
import streamfleet.api.JobsApi.APIGetJobRequest;
import streamfleet.api.JobsApi.APIOpenBatchRequest;
import streamfleet.api.JobsApi.APISubmitJobRequest;
import streamfleet.model.DeadLetter;
import streamfleet.model.Job;
import streamfleet.model.NewBatch;
import streamfleet.model.NewJob;
import streamfleet.model.Problem;
import streamfleet.model.SubmitAnswer;

/** Submits jobs, waits for them, and reads dead letters. The classes of {@code streamfleet} are generated from the description of the HTTP API. */
public final class Shop {
    private static final String QUEUE = "default";

    private final ApiClient client = new ApiClient();
    private final JobsApi jobs;
    private final DeadLettersApi deadLetters;

    private Shop(String console, String token) {
        client.updateBaseUri(console);
        client.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + token));
        jobs = new JobsApi(client);
        deadLetters = new DeadLettersApi(client);
    }

    public static void main(String[] arguments) {
        Shop shop = new Shop(needed("CONSOLE"), needed("TOKEN"));
        try {
            shop.submitOnce();
            shop.buildOneReport();
            shop.sendInvoices();
            shop.readDeadLetters();
        } catch (ApiException error) {
            System.err.println(shop.explained(error));
            System.exit(1);
        }
    }

    /** A job with an id is accepted once, so that it can be sent again after an error. */
    private void submitOnce() throws ApiException {
        NewJob mail = new NewJob().type("mail.send").payload(Map.of("to", "ann@example.com")).id("order-7");
        for (int time = 1; time <= 2; time++) {
            SubmitAnswer answer = submitted(mail);
            System.out.println(answer.getId() + (answer.getExisting() ? " existed already" : " is accepted"));
        }
    }

    /** Another job with the same unique key is not accepted, here for an hour. */
    private void buildOneReport() throws ApiException {
        NewJob report = new NewJob().type("report.build").payload(Map.of("month", 11)).unique("report-11").uniqueScope("1h");
        SubmitAnswer first = submitted(report);
        SubmitAnswer second = submitted(report);
        System.out.println("the second report " + (second.getId().equals(first.getId()) ? "is the first one" : "is another job"));
    }

    /** When all members of a batch have succeeded, the job that follows runs. */
    private void sendInvoices() throws ApiException {
        List<NewJob> invoices = IntStream.rangeClosed(1, 3).mapToObj(Shop::invoice).toList();
        NewJob total = new NewJob().type("invoice.total").id("invoices-2026-11-total");
        NewBatch batch = new NewBatch().members(invoices).follow(total);
        List<String> members = jobs.openBatch(APIOpenBatchRequest.newBuilder().queue(QUEUE).batch("invoices-2026-11").newBatch(batch).build()).getIds();
        for (String member : members) {
            System.out.println(member + " is " + ended(member).getState());
        }
        System.out.println(total.getId() + " is " + ended(total.getId()).getState());
    }

    private static NewJob invoice(int customer) {
        return new NewJob().type("invoice.send").payload(Map.of("customer", customer));
    }

    /** A job that fails for good becomes a dead letter, which people or programs may replay. */
    private void readDeadLetters() throws ApiException {
        NewJob charge = new NewJob().type("card.charge").payload(Map.of("order", 7));
        SubmitAnswer end = jobs.submitJob(APISubmitJobRequest.newBuilder().queue(QUEUE).newJob(charge).waitFor("30s").build());
        System.out.println("the charge is " + end.getState());
        List<DeadLetter> found = deadLetters.listLetters(APIListLettersRequest.newBuilder().queue(QUEUE).type("card.*").limit(10L).build()).getItems();
        for (DeadLetter letter : found) {
            System.out.println("dead letter: " + letter.getType() + ": " + letter.getError().lines().findFirst().orElse(""));
        }
    }

    private SubmitAnswer submitted(NewJob job) throws ApiException {
        return jobs.submitJob(APISubmitJobRequest.newBuilder().queue(QUEUE).newJob(job).build());
    }

    /** Waits for the end of a job, as long as one request may. A job that has not ended by then is returned as it is. */
    private Job ended(String id) throws ApiException {
        return jobs.getJob(APIGetJobRequest.newBuilder().queue(QUEUE).id(id).waitFor("60s").build());
    }

    /** What the console says is wrong, or what happened on the way to it. */
    private String explained(ApiException error) {
        try {
            Problem problem = client.getObjectMapper().readValue(error.getResponseBody(), Problem.class);
            return problem.getStatus() + " " + problem.getTitle() + ": " + problem.getDetail();
        } catch (JsonProcessingException | IllegalArgumentException unreadable) {
            return "the console did not answer: " + error.getMessage();
        }
    }

    private static String needed(String variable) {
        String value = System.getenv(variable);
        if (value == null || value.isEmpty()) {
            System.err.println("set " + variable + ": the address of the console is CONSOLE, and its token is TOKEN");
            System.exit(2);
        }
        return value;
    }
}
