-- An operator may delete a client that is needed no more. A process that knows it from before asks again, and finds that it is gone.
grant delete on client to pixconnect_operator;
create trigger client_removal_moves_access_revision after delete on client
    for each row execute function move_access_revision();
