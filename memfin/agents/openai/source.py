"""The agents of one model: the endpoint, the connections and the prompt that they share."""
